//go:build e2e

package e2e

import (
	"context"
	"testing"
	"time"

	"reveille/images/bench"
	"reveille/images/rack"
)

// orderlyStop is the most that an ordered stop may take here; its own bounds
// are 18 s, in the time of a slow machine.
const orderlyStop = time.Minute

// TestPowerButton presses it: the node says why it goes, on every console, and
// is off.
func TestPowerButton(t *testing.T) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{Name: "n1", TPM: true, Serial: []bench.Pace{bench.Unlimited(), bench.Unlimited()}})
	boot(t, ctx, n, "")
	see(t, ctx, n, 0, `power button at /dev/input/event`)
	see(t, ctx, n, 0, `watchdog /dev/watchdog0 armed`)
	if err := n.PressPower(ctx); err != nil {
		t.Fatal(err)
	}
	within, cancel := context.WithTimeout(ctx, orderlyStop)
	defer cancel()
	select {
	case <-n.Off():
	case <-within.Done():
		t.Error("still on")
	}
	for port := range 2 {
		see(t, ctx, n, port, `poweroff: power button`)
		see(t, ctx, n, port, `poweroff now`)
	}
}
