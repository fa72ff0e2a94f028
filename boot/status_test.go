package boot

import (
	"context"
	"net"
	"testing"
	"time"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/proc"
)

// TestSilentInitIsNoGoodNews: what init said before still holds when it does
// not answer.
func TestSilentInitIsNoGoodNews(t *testing.T) {
	ours, theirs := net.Pipe()
	silent := false
	go proc.Serve(t.Context(), theirs, map[string]proc.Handler{
		proc.OpCrashes: proc.Handle(func(ctx context.Context, _ proc.Nothing) (proc.Crashes, error) {
			if silent {
				<-ctx.Done()
			}
			return proc.Crashes{Count: 3, Last: "boom"}, nil
		}),
		proc.OpLastBoot: proc.Handle(func(context.Context, proc.Nothing) (proc.LastBoot, error) {
			return proc.LastBoot{End: "clean"}, nil
		}),
		proc.OpConsoles: proc.Handle(func(context.Context, proc.Nothing) ([]proc.ConsoleStats, error) {
			return []proc.ConsoleStats{{Name: "ttyS0"}}, nil
		}),
	})
	init := proc.NewClient(ours)
	var k known
	for _, patience := range []time.Duration{time.Minute, time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		k.ask(ctx, init)
		cancel()
		silent = true
		s := new(clusterv1.NodeStatus)
		k.tell(s)
		if s.AgentCrashes != 3 || s.LastCrash != "boom" || s.LastBootEnd != "clean" || len(s.Consoles) != 1 {
			t.Errorf("within %s: %v", patience, s)
		}
	}
}
