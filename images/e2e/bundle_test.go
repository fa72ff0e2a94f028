//go:build e2e

package e2e

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"time"

	"reveille/boot/cluster/operator"
	"reveille/images/rack"
)

// ramoops is a megabyte of the machine's memory that nobody else uses and that
// a warm reset leaves alone; with it, an NMI panics.
const ramoops = "memmap=1M$0x1f000000 ramoops.mem_address=0x1f000000 ramoops.mem_size=0x100000 " +
	"ramoops.record_size=0x20000 unknown_nmi_panic"

// TestCrashesReachTheCluster follows one machine through its deaths: a crash
// and a power cut before the agent is back, a kernel panic, an ordered reboot,
// a crash on a disk that has become read-only. Each time the next boot says
// what happened, joins, and the record is at the cluster.
func TestCrashesReachTheCluster(t *testing.T) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{Name: "n1", TPM: true, Append: "reveille.fault=agent-panic@join"})

	// The agent dies on the way into the cluster, and then the machine. An
	// agent that is back in three seconds finds nobody to send the record to.
	if err := n.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	see(t, ctx, n, 0, `agent crashed: panic: fault: agent-panic`)
	r.StopController()
	see(t, ctx, n, 0, `init          S crash record [0-9a-f]{16} is on disk`)
	if err := n.PowerCut(); err != nil {
		t.Fatal(err)
	}
	console := string(n.Port(0).Bytes())
	start(t, ctx, r)
	if list := bundles(t, ctx, r); len(list) != 0 {
		t.Fatalf("the agent was back before the power went: %+v", list)
	}

	n.SetAppend(ramoops)
	second := boot(t, ctx, n, "")
	see(t, ctx, n, 0, `init          W previous boot [0-9a-f]{8}: agent crash: panic: fault: agent-panic`)
	first := awaitBundle(t, ctx, r, 1)
	if first.Kind != "agent" || first.Stage == "" || first.Incarnation != 1 || first.BootID == second.BootID {
		t.Errorf("the record is of another crash: %+v", first.Bundle)
	}
	if shown := shownTrace(t, console); !strings.HasPrefix(first.Trace, shown) {
		t.Errorf("the record has another trace than the console:\n%s\nconsole:\n%s", first.Trace, shown)
	}
	if !strings.Contains(first.Log, "stage") && !strings.Contains(first.Log, "config        ") {
		t.Errorf("no log before the crash:\n%s", first.Log)
	}

	// The kernel dies; its memory survives the reset.
	n.SetAppend("")
	if err := n.PressNMI(ctx); err != nil {
		t.Fatal(err)
	}
	third, err := r.WaitFor(ctx, "n1", rack.Joined(second.BootID))
	if err != nil {
		t.Fatal(err)
	}
	see(t, ctx, n, 0, `init          W previous boot `+second.BootID[:8]+`: kernel panic: `)
	panicked := awaitBundle(t, ctx, r, 2)
	if panicked.Kind != "kernel" || !strings.Contains(panicked.Dmesg, "Kernel panic - not syncing") {
		t.Errorf("got %+v", panicked)
	}

	// An ordered stop is no death.
	if err := n.PressCtrlAltDel(ctx); err != nil {
		t.Fatal(err)
	}
	if third, err = r.WaitFor(ctx, "n1", rack.Joined(third.BootID)); err != nil {
		t.Fatal(err)
	}
	see(t, ctx, n, 0, `init          I previous boot [0-9a-f]{8}: clean: reboot: ctrl-alt-del`)
	if err := n.PowerCut(); err != nil {
		t.Fatal(err)
	}

	// The agent dies with a disk that takes nothing.
	n.SetReadOnly(true)
	n.SetAppend("reveille.fault=agent-panic@join")
	fourth := boot(t, ctx, n, third.BootID)
	last := awaitBundle(t, ctx, r, 3)
	if last.BootID != fourth.BootID || last.ID == first.ID {
		t.Errorf("got %+v", last.Bundle)
	}
	log, err := n.Logs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(log, "crash records are kept in memory only"); got != 1 {
		t.Errorf("%d warnings about the disk:\n%s", got, log)
	}
}

func bundles(t *testing.T, ctx context.Context, r *rack.Rack) (list []operator.Bundle) {
	t.Helper()
	out, err := r.Operator(ctx, "node", "bundle", "n1", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(out, &list); err != nil {
		t.Fatal(err)
	}
	return list
}

// awaitBundle returns the newest bundle once there are so many.
func awaitBundle(t *testing.T, ctx context.Context, r *rack.Rack, count int) (record operator.CrashRecord) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	tick := time.NewTicker(500 * time.Millisecond)
	defer tick.Stop()
	for {
		if list := bundles(t, ctx, r); len(list) >= count {
			if len(list) > count {
				t.Errorf("%d bundles, want %d: %+v", len(list), count, list)
			}
			out, err := r.Operator(ctx, "node", "bundle", "n1", list[len(list)-1].ID, "-o", "json")
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(out, &record); err != nil {
				t.Fatal(err)
			}
			return record
		}
		select {
		case <-ctx.Done():
			t.Fatalf("bundle %d does not come: %v", count, ctx.Err())
		case <-tick.C:
		}
	}
}

var traceOnConsole = regexp.MustCompile(`(?s)crash         C trace of agent, incarnation 1, [^\n]*:\n(.*?)\n-- `)

// shownTrace is the trace as it stands on a console.
func shownTrace(t *testing.T, text string) string {
	t.Helper()
	m := traceOnConsole.FindStringSubmatch(strings.ReplaceAll(text, "\r\n", "\n"))
	if m == nil || len(m[1]) < 500 {
		t.Fatalf("no trace on the console:\n%s", text)
	}
	return m[1]
}
