//go:build e2e

package e2e

import (
	"context"
	"strings"
	"testing"
	"time"

	"reveille/images/bench"
	"reveille/images/rack"
)

// TestStopOfASickMachine asks a machine to reboot on which everything is in
// the way: a service that does not obey, one that is frozen, a disk that hangs
// and a console that nobody reads. The reason comes first, and the machine
// restarts in the time that it promises.
func TestStopOfASickMachine(t *testing.T) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{
		Name: "n1", TPM: true, Append: "reveille.fault=deaf@steady,frozen@steady",
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
	if err := n.WaitReboots(within, 1); err != nil {
		t.Fatal(err)
	}
	t.Logf("told after %s, reset after %s", told.Round(time.Millisecond), time.Since(asked).Round(time.Millisecond))
	text := string(n.Port(0).Bytes())
	reason, deaf := strings.Index(text, "reboot: ctrl-alt-del"), strings.Index(text, "no end within 5s of SIGTERM; killing")
	if deaf < 0 || deaf < reason || !strings.Contains(text[deaf-100:deaf], "2 processes") {
		t.Errorf("the stop in another order, or another stop:\n%s", text[max(reason-200, 0):])
	}
	// And it is none the worse for it.
	if err := n.ThrottleDisk(ctx, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := r.WaitFor(ctx, "n1", rack.Joined(first.BootID)); err != nil {
		t.Fatal(err)
	}
}
