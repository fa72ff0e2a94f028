package pid1

import (
	"context"
	"strings"
	"testing"
	"time"

	"reveille/boot/proc"
	"reveille/console"
)

// TestLogPageIsBounded wants every page within its bounds, and all pages
// together to be the whole log, also where one record is larger than a page.
func TestLogPageIsBounded(t *testing.T) {
	i, ctx := newTestInit(t, "")
	for n := range 2 * proc.MaxLogPage {
		size := 10
		if n%50 == 7 {
			size = 60 << 10
		}
		i.log.Append("big", console.Info, strings.Repeat("x", size))
	}
	total := i.log.Next() - 1
	var seen, lost uint64
	for from := uint64(1); from <= total; {
		page, err := i.readLog(ctx, proc.LogQuery{From: from, Max: 1 << 20})
		if err != nil {
			t.Fatal(err)
		}
		size := 0
		for _, r := range page.Records {
			size += len(r.Text)
		}
		if n := len(page.Records); n > proc.MaxLogPage || n > 1 && size > proc.MaxLogBytes {
			t.Fatalf("a page of %d records, %d bytes", n, size)
		}
		if page.Next <= from {
			t.Fatalf("no way on from %d", from)
		}
		seen, lost, from = seen+uint64(len(page.Records)), lost+page.Lost, page.Next
	}
	if seen+lost != total {
		t.Errorf("%d records seen, %d lost, of %d", seen, lost, total)
	}
}

func TestReadLogWaits(t *testing.T) {
	i, ctx := newTestInit(t, "")
	got, from := make(chan proc.LogPage, 1), i.log.Next()
	go func() {
		page, err := i.readLog(ctx, proc.LogQuery{From: from, Origins: []string{"wanted"}, Level: "warn", Max: 10, Wait: true})
		if err != nil {
			t.Error(err)
		}
		got <- page
	}()
	i.log.Append("other", console.Error, "not this")
	i.log.Append("wanted", console.Info, "nor this")
	i.log.Append("wanted", console.Warn, "this")
	if page := <-got; len(page.Records) != 1 || page.Records[0].Text != "this" {
		t.Errorf("page: %+v", page)
	}
	ended, cancel := context.WithCancel(ctx)
	cancel()
	if _, err := i.readLog(ended, proc.LogQuery{From: i.log.Next(), Max: 1, Wait: true}); err == nil {
		t.Error("waited beyond the end of its context")
	}
	if _, err := i.readLog(ctx, proc.LogQuery{Level: "loud"}); err == nil {
		t.Error("took an unknown level")
	}
}

// TestServicesAreQuietOnConsoles: what a service prints is in the log, on no
// console, and nobody may start a second agent.
func TestServicesAreQuietOnConsoles(t *testing.T) {
	i, ctx := newTestInit(t, "")
	if _, err := i.startService(ctx, shell("chatty", "echo said out; echo said err >&2")); err != nil {
		t.Fatal(err)
	}
	if _, err := i.wait(ctx, proc.Target{Name: "chatty", Incarnation: 1}); err != nil {
		t.Fatal(err)
	}
	if err := i.table.Drained(ctx, "chatty", 1); err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(texts(i, "svc/chatty"), ","); !strings.Contains(got, "said out") || !strings.Contains(got, "said err") {
		t.Errorf("in the log: %s", got)
	}
	port := &fakePort{}
	i.screens.Add(console.Spec{Name: "fake0", Kind: console.Hypervisor}, func() (console.Port, error) { return port, nil })
	i.info("the last line")
	within, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	for !strings.Contains(port.text(), "the last line") && within.Err() == nil {
		i.screens.Settle(within)
	}
	if shown := port.text(); strings.Contains(shown, "said") || !strings.Contains(shown, "the last line") {
		t.Errorf("on the console:\n%s", shown)
	}
	if _, err := i.startService(ctx, shell(proc.AgentName, "true")); err == nil {
		t.Error("started a second agent")
	}
}

func TestRestartIsOneWay(t *testing.T) {
	i, ctx := newTestInit(t, "")
	if _, err := i.restart(ctx, proc.Restart{How: "explode"}); err == nil {
		t.Error("took an unknown way to restart")
	}
	for _, reason := range []string{"first", "second"} {
		if _, err := i.restart(ctx, proc.Restart{How: proc.Reboot, Reason: reason}); err != nil {
			t.Error(err)
		}
	}
	if r := <-i.stopped; r.Reason != "first" {
		t.Errorf("ends for %q", r.Reason)
	}
	select {
	case r := <-i.stopped:
		t.Errorf("ends twice: %v", r)
	default:
	}
}
