//go:build e2e

package e2e

import (
	"context"
	"regexp"
	"testing"
	"time"

	"reveille/images/bench"
	"reveille/images/rack"
)

// TestStopOfASickMachine asks a machine to reboot on which everything is in
// the way: a service that does not obey, one that is frozen, a disk that hangs
// and a console that nobody reads. The reason comes first, on the display too,
// and the machine restarts in the time that it promises.
func TestStopOfASickMachine(t *testing.T) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{
		Name: "n1", TPM: true, Display: true, Append: "reveille.fault=deaf@steady,frozen@steady",
		Serial: []bench.Pace{bench.Unlimited(), bench.StopsAfter(2048)},
	})
	first := boot(t, ctx, n, "")
	if err := n.ThrottleDisk(ctx, 1); err != nil {
		t.Fatal(err)
	}
	within, cancel := context.WithTimeout(ctx, orderlyStop)
	defer cancel()
	asked := time.Now()
	if err := n.PressCtrlAltDel(ctx); err != nil {
		t.Fatal(err)
	}
	see(t, within, n, 0, `reboot: ctrl-alt-del`)
	told := time.Since(asked)
	awaitScreen(t, within, n, "reboot: ctrl-alt-del, or SIGINT to init")
	if err := n.WaitReboots(within, 1); err != nil {
		t.Fatal(err)
	}
	t.Logf("told after %s, reset after %s", told.Round(time.Millisecond), time.Since(asked).Round(time.Millisecond))
	text := n.Port(0).Bytes()
	order := regexp.MustCompile(`(?s)reboot: ctrl-alt-del.*2 processes: deaf .*no\s+end\s+within\s+5s\s+of\s+SIGTERM;\s+killing.*writing back.*reboot now`)
	if !order.Match(text) {
		t.Errorf("the stop in another order, or another stop:\n%s", text)
	}
	// And it is none the worse for it.
	if err := n.ThrottleDisk(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := r.WaitFor(ctx, "n1", rack.Joined(first.BootID)); err != nil {
		t.Fatal(err)
	}
}
