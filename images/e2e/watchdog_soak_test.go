//go:build e2e && soak

package e2e

import (
	"context"
	"testing"
	"time"

	"reveille/images/bench"
	"reveille/images/rack"
)

// dogged is a machine whose kernel has a driver for its hardware watchdog.
func dogged(fault string) rack.Machine {
	return rack.Machine{Name: "n1", TPM: true, FullKernel: true, Watchdog: true, Append: "reveille.fault=" + fault}
}

// bites waits until the watchdog restarts the machine.
func bites(t *testing.T, ctx context.Context, n *rack.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	if err := n.WaitReboots(ctx, 1); err != nil {
		t.Fatal(err)
	}
	for _, e := range n.Events() {
		if e.Name == "WATCHDOG" {
			return
		}
	}
	t.Errorf("reset, but not by the watchdog: %+v", n.Events())
}

// TestHardwareWatchdog has init stand still, which no process can see. The
// watchdog restarts the machine, and the next boot knows why, counts it, and
// tells the cluster.
func TestHardwareWatchdog(t *testing.T) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, dogged("init-stop@join"))
	if err := n.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	read(t, ctx, n, 0, `watchdog /dev/watchdog0 armed: restarts the machine after 60 s`)
	bites(t, ctx, n)
	v, err := r.WaitFor(ctx, "n1", rack.Joined(""))
	if err != nil {
		t.Fatal(err)
	}
	read(t, ctx, n, 0, `previous boot [0-9a-f]{8}: watchdog: the hardware watchdog reset the machine`)
	read(t, ctx, n, 0, `restarts in a row that nobody asked for: 1;`)
	if v.LastBootEnd != "watchdog" {
		t.Errorf("the cluster was told %q: %s", v.LastBootEnd, v.LastBootReason)
	}
}

// TestWatchdogEndsAHungStop: it is armed to the end.
func TestWatchdogEndsAHungStop(t *testing.T) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, dogged("init-stop-late@steady"))
	first := boot(t, ctx, n, "")
	read(t, ctx, n, 0, `watchdog /dev/watchdog0 armed`)
	if err := n.PressCtrlAltDel(ctx); err != nil {
		t.Fatal(err)
	}
	read(t, ctx, n, 0, `reboot: ctrl-alt-del`)
	bites(t, ctx, n)
	v, err := r.WaitFor(ctx, "n1", rack.Joined(first.BootID))
	if err != nil {
		t.Fatal(err)
	}
	read(t, ctx, n, 0, `clean: reboot: ctrl-alt-del, or SIGINT to init; that hung, and the hardware watchdog`)
	if v.LastBootEnd != "clean" {
		t.Errorf("the cluster was told %q: %s", v.LastBootEnd, v.LastBootReason)
	}
}

// TestFirmwareKeepsThePanic: EFI variables have the kernel's last words after
// the power was cut, when memory has nothing.
func TestFirmwareKeepsThePanic(t *testing.T) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{Name: "n1", TPM: true, UEFI: true, Append: "unknown_nmi_panic"})
	first := boot(t, ctx, n, "")
	if err := n.PressNMI(ctx); err != nil {
		t.Fatal(err)
	}
	within, cancel := context.WithTimeout(ctx, orderlyStop)
	defer cancel()
	if err := n.WaitReboots(within, 1); err != nil { // it wrote them before it restarted
		t.Fatal(err)
	}
	if err := n.PowerCut(); err != nil {
		t.Fatal(err)
	}
	v := boot(t, ctx, n, first.BootID)
	read(t, ctx, n, 0, `previous boot `+first.BootID[:8]+`: kernel panic: `)
	if v.LastBootEnd != "kernel panic" {
		t.Errorf("the cluster was told %q: %s", v.LastBootEnd, v.LastBootReason)
	}
	b := awaitBundle(t, ctx, r, 1)
	if b.Kind != "kernel" || b.Dmesg == "" {
		t.Errorf("got %+v", b)
	}
	// What was harvested is gone from the firmware: a power cut is one now.
	if err := n.PowerCut(); err != nil {
		t.Fatal(err)
	}
	boot(t, ctx, n, v.BootID)
	read(t, ctx, n, 0, `previous boot `+v.BootID[:8]+`: power loss: `)
}

// TestSignalsToPID1: the two that no key sends.
func TestSignalsToPID1(t *testing.T) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{
		Name: "n1", TPM: true, Append: "reveille.fault=init-term@join,init-pwr@steady",
		Serial: []bench.Pace{bench.Unlimited(), bench.Unlimited()},
	})
	if err := n.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	for port := range 2 {
		read(t, ctx, n, port, `reboot: SIGTERM to init`)
		read(t, ctx, n, port, `reboot now`)
	}
	// The next boot goes on to steady.
	read(t, ctx, n, 0, `previous boot [0-9a-f]{8}: clean: reboot: SIGTERM to init`)
	for port := range 2 {
		read(t, ctx, n, port, `poweroff: power failure \(SIGPWR\)`)
	}
	select {
	case <-n.Off():
	case <-time.After(orderlyStop):
		t.Error("still on")
	}
}
