//go:build e2e && soak

package e2e

import (
	"fmt"
	"strings"
	"testing"

	"reveille/images/bench"
	"reveille/images/rack"
)

// TestNoDisk: a machine without a state partition cannot join, for it cannot
// keep a key. It says so, and all else goes on: network, log, and the verdict
// on a boot that ended in a panic.
func TestNoDisk(t *testing.T) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{Name: "n1", NoDisk: true, Append: ramoops})
	if err := n.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	const missed = `no state partition so far; crash records are\s+kept in memory only`
	see(t, ctx, n, 0, `bond0 up`)
	see(t, ctx, n, 0, missed)
	see(t, ctx, n, 0, `config        W .*REVEILLE`)
	if err := n.PressNMI(ctx); err != nil {
		t.Fatal(err)
	}
	see(t, ctx, n, 0, `(?s)`+missed+`.*`+missed+`.*previous boot \?: kernel panic: `)
	if text := string(n.Port(0).Bytes()); strings.Count(text, "no state partition so far") != 2 {
		t.Errorf("not one warning a boot:\n%s", text)
	}
}

// TestFullDisk has room for the config and no more: one warning, and the crash
// is at the cluster all the same.
func TestFullDisk(t *testing.T) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{Name: "n1", TPM: true, Append: "reveille.fault=agent-panic@join"})
	if err := bench.FillDisk(n.DiskImage(), 512<<10); err != nil {
		t.Fatal(err)
	}
	v := boot(t, ctx, n, "")
	if v.AgentCrashes != 1 || !v.Sealed {
		t.Errorf("%d crashes, sealed %t", v.AgentCrashes, v.Sealed)
	}
	if b := awaitBundle(t, ctx, r, 1); b.Kind != "agent" || b.BootID != v.BootID {
		t.Errorf("got %+v", b)
	}
	log, err := n.Logs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(log, "kept in memory only") + strings.Count(log, "nearly full"); got != 2 {
		t.Errorf("%d warnings about the disk:\n%s", got, log)
	}
}

// TestCrashLoop: an agent that always dies. Two restarts of the machine did not
// help, so the third comes only when the machine was up for four minutes; until
// then the agent goes on being started.
func TestCrashLoop(t *testing.T) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{Name: "n1", TPM: true, Append: "reveille.fault=agent-loop@network"})
	count := fmt.Appendf(nil, "forced reboots in a row: %6d\n", 2)
	if err := bench.WriteDisk(n.DiskImage(), "reveille/reboots", count); err != nil {
		t.Fatal(err)
	}
	if err := n.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	see(t, ctx, n, 0, `restarted 2 times in a row without being asked; the next\s+time not before 4m0s of uptime`)
	see(t, ctx, n, 0, `the agent crashed 10 times within 10m0s, and so it was before the last reboot; next\s+reboot in`)
	if n.Reboots() != 0 {
		t.Error("restarted too soon")
	}
	see(t, ctx, n, 0, `reboot: the agent crashed 10 times within 10m0s`)
	see(t, ctx, n, 0, `previous boot [0-9a-f]{8}: agent crash: reboot: the agent crashed 10 times`)
	see(t, ctx, n, 0, `restarted 3 times in a row without being asked; the next\s+time not before 8m0s of uptime`)
}
