//go:build e2e

package e2e

import (
	"bytes"
	"strings"
	"testing"

	"reveille/images/bench"
	"reveille/images/rack"
)

// TestInitPanics has init itself die. Its warden must say why on both consoles
// and on the display, restart the machine, and leave a record that the next boot
// takes to the cluster.
func TestInitPanics(t *testing.T) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{
		Name: "n1", TPM: true, Display: true, Append: "reveille.fault=init-panic@join",
		Serial: []bench.Pace{bench.Unlimited(), bench.Unlimited()},
	})
	if err := n.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	awaitScreen(t, ctx, n, "init is dead", "init crashed: panic: fault: init-panic", "pid1/faults.go")
	v, err := r.WaitFor(ctx, "n1", rack.Joined(""))
	if err != nil {
		t.Fatal(err)
	}
	if v.AgentCrashes != 0 {
		t.Errorf("%d crashes of the agent", v.AgentCrashes)
	}
	if boots := bytes.Count(n.Port(0).Bytes(), []byte("init          I reveille ")); n.Reboots() == 0 || boots != 2 {
		t.Errorf("the machine was reset %d times, and booted %d times", n.Reboots(), boots)
	}
	for port := range 2 {
		see(t, ctx, n, port, `init crashed: panic: fault: init-panic`)
		see(t, ctx, n, port, `stage join`)
		see(t, ctx, n, port, `pid1/faults\.go`)
		see(t, ctx, n, port, `warden        C init is dead; rebooting`)
		if problem := inPieces(string(n.Port(port).Bytes())); problem != "" {
			t.Error(problem)
		}
	}
	see(t, ctx, n, 0, `previous boot [0-9a-f]+: init crash`)
	b := awaitBundle(t, ctx, r, 1)
	if b.Kind != "init" || b.BootID == v.BootID || !strings.Contains(b.Trace, "pid1/faults.go") {
		t.Errorf("the bundle is of something else: %+v", b)
	}
	if lines := strings.Split(strings.TrimRight(b.Log, "\n"), "\n"); !strings.Contains(lines[0], "init          I reveille ") ||
		!strings.Contains(b.Log, "injecting init-panic@join") {
		t.Errorf("not all of the log of the boot that ended:\n%s", b.Log)
	}
}
