package boot

import (
	"errors"
	"net"
	"testing"

	"reveille/boot/proc"
)

// TestAgentEndsWithoutInit wants an agent that lost its control socket to end,
// so that init starts one that has it.
func TestAgentEndsWithoutInit(t *testing.T) {
	ours, theirs := net.Pipe()
	theirs.Close()
	n := &Node{init: proc.NewClient(ours), track: NewTracker(Stages)}
	if err := n.report(t.Context()); !errors.Is(err, proc.ErrInitGone) {
		t.Errorf("ended with %v", err)
	}
}
