package pid1

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"reveille/boot/crash"
	"reveille/boot/proc"
)

// TestPmsgOutlivesAWarmReset: a crash before any disk is in the kernel's own
// storage at once; the next boot has it from there, and once only: the disk, if
// it had come in time, has the longer copy.
func TestPmsgOutlivesAWarmReset(t *testing.T) {
	for _, diskInTime := range []bool{false, true} {
		m := newMachine(t)
		m.mounted = false
		pmsg, kept := filepath.Join(m.dir, "pmsg0"), filepath.Join(m.dir, "pstore", "pmsg-ramoops-0")
		if err := errors.Join(os.WriteFile(pmsg, nil, 0o600), os.Mkdir(filepath.Dir(kept), 0o700)); err != nil {
			t.Fatal(err)
		}
		r, _ := m.boot()
		long := r.die(1) // 100 KB of trace
		r.work()
		if m.mounted = diskInTime; diskInTime {
			r.work()
		}
		if err := os.Rename(pmsg, kept); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(kept)
		if err != nil || info.Size() == 0 || info.Size() > maxPmsg {
			t.Fatalf("pmsg has %v, %v", info, err)
		}

		m.mounted = true
		r, log := m.boot()
		r.work()
		list, err := r.list(t.Context(), proc.Nothing{})
		if err != nil || len(list) != 1 || diskInTime != (list[0].ID == long) {
			t.Fatalf("disk in time %t: pending %v, the long one is %s, %v", diskInTime, list, long, err)
		}
		raw, err := r.give(t.Context(), list[0])
		if err != nil {
			t.Fatal(err)
		}
		if rec, _, err := crash.Parse(raw.Data); err != nil || rec.Reason != "panic: 1" || rec.BootID != "boot1" {
			t.Errorf("got %+v, %v", rec, err)
		}
		if !diskInTime && !strings.Contains(log.String(), "is on disk: agent crash: panic: 1") {
			t.Errorf("said\n%s", log)
		}
		if _, err := os.Stat(kept); !os.IsNotExist(err) {
			t.Errorf("pmsg is not given back: %v", err)
		}
	}
}

// panics leaves a kernel's last words in pstore.
func (m *machine) panics() (dump string) {
	m.t.Helper()
	dump = filepath.Join(m.dir, "pstore", "dmesg-ramoops-0")
	if err := os.Mkdir(filepath.Dir(dump), 0o700); err != nil {
		m.t.Fatal(err)
	}
	if err := os.WriteFile(dump, []byte("Panic#1 Part1\n<0>[    2.1] Kernel panic - not syncing: sysrq triggered crash\n"), 0o600); err != nil {
		m.t.Fatal(err)
	}
	return dump
}

// TestNoDisk: one warning, and the verdict by what the kernel kept, which is
// given back when the cluster has it.
func TestNoDisk(t *testing.T) {
	m := newMachine(t)
	m.mounted, m.patience = false, 0
	dump := m.panics()
	r, log := m.boot()
	judged := 0
	r.judged = func(v crash.Verdict) {
		if judged++; v.End != crash.KernelDeath || !v.Uncounted {
			t.Errorf("judged %+v", v)
		}
	}
	want := []string{
		"W no state partition so far; crash records are kept in memory only, and no boot knows how this one ends; going on",
		"W previous boot ?: kernel panic: sysrq triggered crash",
	}
	for range 3 {
		if wait := r.work(); wait != lookForDisk {
			t.Errorf("looks again in %s", wait)
		}
	}
	wantLines(t, log, want...)
	if _, err := os.Stat(dump); err != nil {
		t.Error("the dump is gone before the cluster has it")
	}
	if last, err := r.lastBoot(t.Context(), proc.Nothing{}); err != nil || last.End != "kernel panic" || last.Reason == "" {
		t.Errorf("last boot %+v, %v", last, err)
	}
	if _, err := r.forget(t.Context(), proc.RecordID{ID: r.ids(t)}); err != nil {
		t.Fatal(err)
	}
	r.work()
	if _, err := os.Stat(dump); !os.IsNotExist(err) {
		t.Errorf("the dump is still there: %v", err)
	}
	// The disk comes after all. It has no journal, so it knows nothing better.
	m.mounted = true
	r.work()
	wantLines(t, log, want...)
	if got := r.ids(t); got != "" || judged != 2 {
		t.Errorf("pending %s, judged %d times", got, judged)
	}
}

// TestDiskComesLate, and tells what nobody knew without it.
func TestDiskComesLate(t *testing.T) {
	m := newMachine(t)
	r, _ := m.boot()
	r.work()
	m.mounted, m.patience = false, 0
	r, log := m.boot()
	r.work()
	m.mounted = true
	r.work()
	lines := strings.Split(log.String(), "\n")
	if len(lines) != 3 || !strings.Contains(lines[1], "I previous boot ?: unknown: ") || !strings.Contains(lines[2], "W previous boot boot1: power loss: ") {
		t.Errorf("said\n%s", log)
	}
}

// TestPstoreIsHarvested: the kernel's dump becomes a record, the verdict, and
// pstore is cleared once the record is safe.
func TestPstoreIsHarvested(t *testing.T) {
	m := newMachine(t)
	r, _ := m.boot()
	r.work()

	r, log := m.boot()
	dump := m.panics()
	r.work()
	id := r.ids(t)
	wantLines(t, log, "W previous boot boot1: kernel panic: sysrq triggered crash",
		"S crash record "+id+" is on disk: kernel panic: sysrq triggered crash")
	if _, err := os.Stat(dump); !os.IsNotExist(err) {
		t.Errorf("the dump is still there: %v", err)
	}
}

func TestWatchdogIsNamed(t *testing.T) {
	m := newMachine(t)
	r, _ := m.boot()
	r.work()
	if err := os.WriteFile(filepath.Join(m.dir, "watchdog0"), []byte("32\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, log := m.boot()
	r.work()
	wantLines(t, log, "W previous boot boot1: watchdog: the hardware watchdog reset the machine")
}

// TestDoomIsOnRecord: a watchdog that cannot tell that it was the one, and why
// it was let do so; not if the fault went away.
func TestDoomIsOnRecord(t *testing.T) {
	m := newMachine(t)
	r, _ := m.boot()
	r.work()
	r.doom("no sign of the agent for 1m40s")
	r.work()
	r, log := m.boot()
	r.work()
	wantLines(t, log, "W previous boot boot1: watchdog: no sign of the agent for 1m40s; so the watchdog was not fed")
	r.doom("a fault")
	r.work()
	r.doom("")
	r.work()
	r, log = m.boot()
	r.work()
	wantLines(t, log, "W previous boot boot2: power loss: no ordered stop and no crash on record: power lost, or reset")
}
