package pid1

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reveille/boot/crash"
	"reveille/boot/proc"
	"reveille/console"
)

// TestRecordOutlivesThePower: a crash, the power goes, and the next boot has
// the record, says what happened, and forgets it when the cluster has it.
func TestRecordOutlivesThePower(t *testing.T) {
	m := newMachine(t)
	r, log := m.boot()
	if wait := r.work(); wait != nothingToDo {
		t.Errorf("looks again in %s", wait)
	}
	id := r.die(1)
	r.work()
	wantLines(t, log, "I previous boot ?: unknown: no boot before this one is on record",
		"S crash record "+id+" is on disk: agent crash: panic: 1")

	r, log = m.boot()
	r.work()
	wantLines(t, log, "W previous boot boot1: agent crash: panic: 1; power lost, or reset, before the cluster heard of it")
	if got := r.ids(t); got != id {
		t.Fatalf("pending %s, want %s", got, id)
	}
	raw, err := r.give(t.Context(), proc.RecordID{ID: id})
	if err != nil || crash.ID(raw.Data) != id {
		t.Errorf("got another record, %v", err)
	}
	if _, err := r.forget(t.Context(), proc.RecordID{ID: id}); err != nil {
		t.Fatal(err)
	}
	r.work()

	r, log = m.boot()
	r.work()
	wantLines(t, log, "W previous boot boot2: power loss: no ordered stop and no crash on record: power lost, or reset")
	if got := r.ids(t); got != "" {
		t.Errorf("pending %s", got)
	}
}

func TestOrderedStopIsClean(t *testing.T) {
	m := newMachine(t)
	r, _ := m.boot()
	ended := make(chan struct{})
	go func() { defer close(ended); r.run() }()
	id := r.die(1)
	r.end(proc.Restart{How: proc.Reboot, Reason: "asked by operator"})
	<-ended

	r, log := m.boot()
	r.work()
	wantLines(t, log, "I previous boot boot1: clean: reboot: asked by operator")
	if got := r.ids(t); got != id {
		t.Errorf("pending %s, want %s: a stop must not lose a record", got, id)
	}
}

// TestCrashBeforeTheMount is kept in memory and written when the disk is there.
func TestCrashBeforeTheMount(t *testing.T) {
	m := newMachine(t)
	m.mounted = false
	r, log := m.boot()
	id := r.die(1)
	if wait := r.work(); wait != lookForDisk {
		t.Errorf("looks again in %s", wait)
	}
	if got := r.ids(t); got != id {
		t.Errorf("pending %s", got)
	}
	m.mounted = true
	r.work()
	if !strings.Contains(log.String(), "S crash record "+id+" is on disk") {
		t.Errorf("said %s", log)
	}
}

// TestDiskThatBecameReadOnly has its files, and refuses to write them.
func TestDiskThatBecameReadOnly(t *testing.T) {
	m := newMachine(t)
	r, _ := m.boot()
	r.work()
	files, err := filepath.Glob(filepath.Join(r.disk.dir, "*"))
	if err != nil || len(files) != maxPending+1 {
		t.Fatalf("files %v, %v", files, err)
	}
	for _, f := range files { // /dev/full reads as zeros and takes nothing
		if err := errors.Join(os.Remove(f), os.Symlink("/dev/full", f)); err != nil {
			t.Fatal(err)
		}
	}
	r, log := m.boot()
	r.work()
	id := r.die(1)
	r.work()
	r.disk.endBoot(r, proc.Restart{How: proc.Reboot})
	if got := strings.Count(log.String(), "kept in memory only"); got != 1 || strings.Count(log.String(), "W ") != 1 {
		t.Errorf("said\n%s", log)
	}
	if got := r.ids(t); got != id {
		t.Errorf("pending %s", got)
	}
}

// TestBadDiskIsSaidOnce: whatever a disk refuses, records stay in memory.
func TestBadDiskIsSaidOnce(t *testing.T) {
	m := newMachine(t)
	m.readOnly = true
	r, log := m.boot()
	var want []string
	for n := range maxPending + 3 {
		want = append(want, r.die(n))
		if wait := r.work(); wait != tryDisk {
			t.Errorf("looks again in %s", wait)
		}
	}
	if got := strings.Count(log.String(), "W "); got != 1 {
		t.Errorf("%d warnings:\n%s", got, log)
	}
	if got := r.ids(t); got != strings.Join(want[3:], " ") {
		t.Errorf("pending %s", got)
	}
	r.disk.endBoot(r, proc.Restart{How: proc.Reboot})
}

func TestNewestRecordsStay(t *testing.T) {
	m := newMachine(t)
	r, _ := m.boot()
	r.work()
	var want []string
	for n := range 2 * maxPending {
		want = append(want, r.die(n))
		r.work()
	}
	r, _ = m.boot()
	r.work()
	if got := r.ids(t); got != strings.Join(want[maxPending:], " ") {
		t.Errorf("pending %s, want %s", got, strings.Join(want[maxPending:], " "))
	}
}

// TestRemovalIsTriedAgain: a record that the disk would not let go is removed
// later, and until then a new record may have its place.
func TestRemovalIsTriedAgain(t *testing.T) {
	m := newMachine(t)
	r, _ := m.boot()
	var want []string
	for n := range maxPending {
		want = append(want, r.die(n))
	}
	r.work()
	slot := func(n int) string { return filepath.Join(r.disk.dir, fmt.Sprintf("crash.%d", n)) }
	refused := func(n int) {
		t.Helper()
		if err := os.Rename(slot(n), slot(n)+".away"); err != nil {
			t.Fatal(err)
		}
		if _, err := r.forget(t.Context(), proc.RecordID{ID: want[n]}); err != nil {
			t.Fatal(err)
		}
		if wait := r.work(); wait != tryDisk || !r.disk.store.Holds(want[n]) {
			t.Errorf("removed without its file; looks again in %s", wait)
		}
		if err := os.Rename(slot(n)+".away", slot(n)); err != nil {
			t.Fatal(err)
		}
	}
	refused(2)
	if wait := r.work(); wait != nothingToDo || r.disk.store.Holds(want[2]) {
		t.Errorf("not removed; looks again in %s", wait)
	}

	want = append(want, r.die(maxPending)) // in the place that is free now
	r.work()
	refused(5)
	next := r.die(maxPending + 1)
	if got := r.giveWay(); got != want[5] {
		t.Errorf("%s gives way, want %s, which is gone", got, want[5])
	}
	r.work()
	for _, id := range []string{want[0], want[8], next} {
		if !r.disk.store.Holds(id) {
			t.Errorf("%s is not on the disk", id)
		}
	}
}

// TestForgottenWhileItIsWritten: the cluster has a record before the disk has.
func TestForgottenWhileItIsWritten(t *testing.T) {
	m := newMachine(t)
	r, _ := m.boot()
	r.work()
	id := r.die(1)
	todo := r.unsaved()
	if _, err := r.forget(t.Context(), proc.RecordID{ID: id}); err != nil {
		t.Fatal(err)
	}
	for _, p := range todo { // the write that was under way comes to its end
		if err := r.save(p); err != nil {
			t.Fatal(err)
		}
	}
	r.work()
	r, _ = m.boot()
	r.work()
	if got := r.ids(t); got != "" {
		t.Errorf("pending %s, which the cluster has", got)
	}
}

// TestFewSlotsKeepTheNewest: the disk had room for two.
func TestFewSlotsKeepTheNewest(t *testing.T) {
	m := newMachine(t)
	r, _ := m.boot()
	third := filepath.Join(r.disk.dir, "crash.2")
	if err := errors.Join(os.MkdirAll(r.disk.dir, 0o700), os.Symlink("/dev/full", third)); err != nil {
		t.Fatal(err)
	}
	var want []string
	for n := range 5 {
		want = append(want, r.die(n))
		r.work()
	}
	for n, id := range want {
		if held := r.disk.store.Holds(id); held != (n >= 3) {
			t.Errorf("record %d is on the disk: %v", n, held)
		}
	}
}

// TestLastWordsNeedOneSlot: init's own death is written past a slot that
// neither reads nor can be made.
func TestLastWordsNeedOneSlot(t *testing.T) {
	dir := t.TempDir()
	if err := os.Mkdir(filepath.Join(dir, "crash.2"), 0o700); err != nil {
		t.Fatal(err)
	}
	var last string
	for n := range 3 { // two slots: the third time, the oldest gives way
		raw := crash.Record{Kind: crash.Init, Reason: "panic", Time: time.Unix(int64(n), 0).UTC()}.Encode()
		if err := keepIn(dir, raw); err != nil {
			t.Fatal(err)
		}
		last = crash.ID(raw)
	}
	_, all, err := crash.OpenStore(dir)
	if err == nil || len(all) != 2 || all[1].ID != last {
		t.Errorf("the disk holds %d records, and says %v", len(all), err)
	}
	err = keepIn("/proc/reveille/crash", crash.Record{Kind: crash.Init}.Encode())
	if err == nil || !strings.Contains(err.Error(), "write crash record") || !strings.Contains(err.Error(), "prepare crash record") {
		t.Errorf("a disk that takes nothing: %v", err)
	}
}

// TestNearlyFullDiskIsSaidOnce, and its few slots serve.
func TestNearlyFullDiskIsSaidOnce(t *testing.T) {
	m := newMachine(t)
	m.small(1800) // two slots, and what stays free
	r, log := m.boot()
	for n := range 4 {
		id := r.die(n)
		if wait := r.work(); wait != nothingToDo || !r.disk.store.Holds(id) {
			t.Errorf("record %d is not on the disk; looks again in %s", n, wait)
		}
	}
	if got := strings.Count(log.String(), "W "); got != 1 || !strings.Contains(log.String(), "nearly full") {
		t.Errorf("%d warnings:\n%s", got, log)
	}
}

// TestFullDiskIsSaidOnce: there is no room for a single slot.
func TestFullDiskIsSaidOnce(t *testing.T) {
	m := newMachine(t)
	m.small(600)
	r, log := m.boot()
	var want []string
	for n := range 3 {
		want = append(want, r.die(n))
		if wait := r.work(); wait != tryDisk {
			t.Errorf("looks again in %s", wait)
		}
	}
	if got := r.ids(t); got != strings.Join(want, " ") {
		t.Errorf("pending %s", got)
	}
	if got := strings.Count(log.String(), "W "); got != 1 || !strings.Contains(log.String(), "nearly full") || !strings.Contains(log.String(), "kept in memory only") {
		t.Errorf("%d warnings:\n%s", got, log)
	}
}

// TestRecordHasTheLogAndNoSecret makes a record as init does.
func TestRecordHasTheLogAndNoSecret(t *testing.T) {
	i := newInit(Options{BuildID: "test"})
	defer i.screens.Close(context.Background())
	if _, err := i.keep(t.Context(), proc.Kept{Slot: proc.KeptServices, Data: []byte("the-kept-secret")}); err != nil {
		t.Fatal(err)
	}
	i.log.Append("kernel", console.Info, "Kernel command line: quiet reveille.node=dGhlLXRpY2tldA== panic=-1")
	for n := range 5000 {
		i.log.Append("netcfg", console.Info, fmt.Sprintf("line %d", n))
	}
	words := console.NewCrashCollector(console.DefaultCrashHead, console.DefaultCrashTail, nil)
	fmt.Fprint(words, "panic: boom\n\ngoroutine 1 [running]:\nreveille/boot.join(0x1)\n\t/x/boot/member.go:7 +0x1d\n")
	report := console.Summarise(console.CrashFacts{Process: "agent", Incarnation: 3, Stage: "join", WaitStatus: "exit status 2"}, words.Text())
	report.Publish(i.log)
	i.record(report)

	list, _ := i.records.list(t.Context(), proc.Nothing{})
	raw, err := i.records.give(t.Context(), list[0])
	if err != nil {
		t.Fatal(err)
	}
	r, _, err := crash.Parse(raw.Data)
	if err != nil {
		t.Fatal(err)
	}
	if r.Reason != "panic: boom" || r.Frame != "reveille/boot.join (boot/member.go:7)" || r.Incarnation != 3 || r.Stage != "join" || string(r.Trace) != report.Trace {
		t.Errorf("got %+v", r)
	}
	if text := string(r.Log); !strings.HasSuffix(text, "I line 4999\n") || len(text) > tailBytes || strings.Contains(text, "boom") {
		t.Errorf("%d bytes of log, at its end %q", len(text), text[max(len(text)-200, 0):])
	}
	for _, secret := range []string{"the-kept-secret", "dGhlLXRpY2tldA"} {
		if bytes.Contains(raw.Data, []byte(secret)) {
			t.Errorf("%s is in the record", secret)
		}
	}
}
