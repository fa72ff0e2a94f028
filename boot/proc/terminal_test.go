package proc

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"
)

// shownUntil reads a terminal until it has shown a text.
func shownUntil(t *testing.T, table *Table, ctx context.Context, target Target, from uint64, want string) uint64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	var all []byte
	for !bytes.Contains(all, []byte(want)) {
		page, err := table.Terminal(ctx, TerminalQuery{Target: target, From: from, Wait: true})
		all, from = append(all, page.Data...), page.Next
		if err != nil || page.End && len(page.Data) == 0 {
			t.Fatalf("%q, then %v", all, err)
		}
	}
	return from
}

// A process with a terminal believes it has one: it can be typed into, it
// learns of its size and it hears a ^C.
func TestTerminal(t *testing.T) {
	table, ctx := reaping(t)
	var log buffer
	spec := shell("tty", `trap 'echo interrupted; exit 3' INT; test -t 0 && test -t 2 && stty size; while read line; do echo "got $line"; stty size; done`)
	spec.Terminal = true
	if _, err := table.Start(t.Context(), spec, Output{Stdout: log.read}); err != nil {
		t.Fatal(err)
	}
	target := Target{Name: "tty", Incarnation: 1}
	from := shownUntil(t, table, ctx, target, 0, "24 80\r\n")
	if err := table.Type(Typed{Target: target, Data: []byte("hello\n"), Rows: 50, Columns: 132}); err != nil {
		t.Fatal(err)
	}
	from = shownUntil(t, table, ctx, target, from, "got hello\r\n50 132\r\n")
	if err := table.Type(Typed{Target: target, Data: []byte{3}}); err != nil {
		t.Fatal(err)
	}
	from = shownUntil(t, table, ctx, target, from, "interrupted\r\n")
	if p, err := table.Wait(ctx, "tty", 1); err != nil || p.Exit.Code != 3 {
		t.Errorf("%+v, %v", p, err)
	}
	if err := table.Drained(ctx, "tty", 1); err != nil {
		t.Fatal(err)
	}
	page, err := table.Terminal(ctx, TerminalQuery{Target: target, From: from, Wait: true})
	if err != nil || !page.End || len(page.Data) > 0 {
		t.Errorf("after its end: %+v, %v", page, err)
	}
	if !strings.Contains(log.String(), "got hello\r\n") || !strings.Contains(log.String(), "interrupted") {
		t.Errorf("logged %q", log.String())
	}
	if err := table.Type(Typed{Target: target, Data: []byte("x")}); err == nil {
		t.Error("typed into a process that has ended")
	}
	if _, err := table.Terminal(ctx, TerminalQuery{Target: Target{Name: "tty", Incarnation: 2}}); err == nil {
		t.Error("found the terminal of another incarnation")
	}
}

// A process that does not read its input holds nobody up.
func TestTypeIsBounded(t *testing.T) {
	table, ctx := reaping(t)
	spec := shell("deaf", `stty raw -echo; echo ready; exec sleep 60`)
	spec.Terminal = true
	if _, err := table.Start(t.Context(), spec, discard()); err != nil {
		t.Fatal(err)
	}
	target := Target{Name: "deaf", Incarnation: 1}
	shownUntil(t, table, ctx, target, 0, "ready")
	began := time.Now()
	var err error
	for err == nil && time.Since(began) < time.Minute {
		err = table.Type(Typed{Target: target, Data: bytes.Repeat([]byte("x"), MaxTyped)})
	}
	if err == nil || err.Error() != "the process does not read its input" {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
	if err := table.Type(Typed{Target: target, Data: make([]byte, MaxTyped+1)}); err == nil {
		t.Error("took more than the limit")
	}
	if err := table.Signal("deaf", 1, 9); err != nil {
		t.Fatal(err)
	}
	if _, err := table.Wait(ctx, "deaf", 1); err != nil {
		t.Fatal(err)
	}
}

func TestShownKeepsTheEnd(t *testing.T) {
	s := newShown()
	for range 3 {
		_, _ = s.Write(bytes.Repeat([]byte("a"), keptShown/2)) // never fails
	}
	_, _ = s.Write([]byte("end"))
	page, _ := s.since(10)
	if len(page.Data) != keptShown || !bytes.HasSuffix(page.Data, []byte("end")) || page.Next != keptShown*3/2+3 || page.Lost != page.Next-keptShown-10 {
		t.Errorf("%d bytes, next %d, lost %d", len(page.Data), page.Next, page.Lost)
	}
	if page, _ := s.since(page.Next + 100); len(page.Data) > 0 || page.Next != keptShown*3/2+3 {
		t.Errorf("from beyond the end: %d bytes, next %d", len(page.Data), page.Next)
	}
}
