//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"reveille/images/rack"
)

// TestAgentDiesAMember kills the agent when the TPM opens the config no more in
// this boot: the next agent must have it from init, find the network as it
// should be, and be the same member.
func TestAgentDiesAMember(t *testing.T) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{Name: "n1", TPM: true, Append: "reveille.fault=agent-panic@steady"})
	if err := n.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	v, err := r.WaitFor(ctx, "n1", func(v rack.View) bool {
		return rack.Joined("")(v) && v.AgentCrashes == 1
	})
	if err != nil {
		t.Fatal(err)
	}
	if v.Boots != 1 || !v.Sealed || !strings.Contains(v.LastCrash, "fault: agent-panic") {
		t.Errorf("boots %d, sealed %t, last crash %q", v.Boots, v.Sealed, v.LastCrash)
	}
	log, err := n.Logs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(log, "create bond bond0"); got != 1 {
		t.Errorf("the bond was created %d times", got)
	}
}
