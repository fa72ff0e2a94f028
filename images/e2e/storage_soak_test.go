//go:build e2e && soak

package e2e

import (
	"fmt"
	"regexp"
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
	const missed = `no state partition so far; crash records are kept in memory only`
	read(t, ctx, n, 0, `bond0 up`)
	read(t, ctx, n, 0, missed)
	read(t, ctx, n, 0, `config        W .*no block device; attach a disk`)
	if err := n.PressNMI(ctx); err != nil {
		t.Fatal(err)
	}
	read(t, ctx, n, 0, `(?s)`+missed+`.*`+missed+`.*previous boot \?: kernel panic: `)
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
	if got := strings.Count(log, "the disk is nearly full"); got != 1 || strings.Count(log, "kept in memory only") != 1 {
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
	// Ten deaths and four minutes of uptime take longer than a boot.
	await := func(pattern string) {
		t.Helper()
		if _, err := n.Port(0).Wait(ctx, regexp.MustCompile(strings.ReplaceAll(pattern, " ", `\s+`))); err != nil {
			t.Fatalf("%s: %v", pattern, err)
		}
	}
	await(`restarts in a row that nobody asked for: 2; the next one not before 4m0s of uptime`)
	await(`the agent crashed 10 times within 10m0s, and so it was before the last reboot; next reboot in`)
	if n.Reboots() != 0 {
		t.Error("restarted too soon")
	}
	await(`reboot: the agent crashed 10 times within 10m0s`)
	await(`previous boot [0-9a-f]{8}: agent crash: reboot: the agent crashed 10 times`)
	await(`restarts in a row that nobody asked for: 3; the next one not before 8m0s of uptime`)
}
