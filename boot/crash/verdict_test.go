package crash

import (
	"errors"
	"strings"
	"testing"
)

func TestJudge(t *testing.T) {
	const boot = "11111111-2222"
	running := Entry{BootID: boot}
	record := func(k Kind, boot, reason string) []Stored {
		return []Stored{{Record: Record{Kind: k, BootID: boot, Reason: reason}}}
	}
	panicked := func(text string) []Stored { return record(Kernel, "", KernelPanic+text) }
	for _, c := range []struct {
		name string
		e    Evidence
		want string
	}{
		{"ordered stop", Evidence{Journal: Entry{BootID: boot, Clean: true, Reason: "reboot: asked by operator"}},
			"previous boot 11111111: clean: reboot: asked by operator"},
		{"ordered stop after a crash", Evidence{Journal: Entry{BootID: boot, Clean: true, Reason: "reboot: loop"}, Pending: record(Agent, boot, "panic: a")},
			"previous boot 11111111: clean: reboot: loop"},
		{"a loop of crashes", Evidence{Journal: Entry{BootID: boot, Clean: true, Forced: true, Reason: "reboot: the agent crashed 10 times"}},
			"previous boot 11111111: agent crash: reboot: the agent crashed 10 times"},
		{"power cut", Evidence{Journal: running},
			"previous boot 11111111: power loss: no ordered stop and no crash on record: power lost, or reset"},
		{"power cut after a crash", Evidence{Journal: running, Pending: record(Agent, boot, "panic: a")},
			"previous boot 11111111: agent crash: panic: a; power lost, or reset, before the cluster heard of it"},
		{"crash of an older boot", Evidence{Journal: running, Pending: record(Agent, "older", "panic: a")},
			"previous boot 11111111: power loss: no ordered stop and no crash on record: power lost, or reset"},
		{"init", Evidence{Journal: running, Pending: record(Init, boot, "panic: b")},
			"previous boot 11111111: init crash: panic: b"},
		{"init, by the kernel", Evidence{Journal: running, Harvested: panicked("Attempted to kill init! exitcode=0x00000200")},
			"previous boot 11111111: init crash: Attempted to kill init! exitcode=0x00000200"},
		{"kernel", Evidence{Journal: running, Harvested: panicked("sysrq triggered crash")},
			"previous boot 11111111: kernel panic: sysrq triggered crash"},
		{"panic that is long sent", Evidence{Journal: running, Pending: panicked("sysrq triggered crash")},
			"previous boot 11111111: power loss: no ordered stop and no crash on record: power lost, or reset"},
		{"panic before the journal", Evidence{Err: ErrBlank, Harvested: panicked("VFS: cannot mount")},
			"previous boot ?: kernel panic: VFS: cannot mount"},
		{"software watchdog", Evidence{Journal: running, Harvested: panicked("Software Watchdog Timer expired")},
			"previous boot 11111111: watchdog: Software Watchdog Timer expired"},
		{"hardware watchdog", Evidence{Journal: running, Watchdog: true},
			"previous boot 11111111: watchdog: the hardware watchdog reset the machine"},
		{"watchdog that tells nothing", Evidence{Journal: Entry{BootID: boot, Doomed: "no sign of the agent for 1m40s"}},
			"previous boot 11111111: watchdog: no sign of the agent for 1m40s; so the watchdog was not fed"},
		{"watchdog and init tell", Evidence{Journal: Entry{BootID: boot, Doomed: "no sign of the agent for 1m40s"}, Watchdog: true},
			"previous boot 11111111: watchdog: no sign of the agent for 1m40s; so the watchdog was not fed"},
		{"ordered stop that hung", Evidence{Journal: Entry{BootID: boot, Clean: true, Reason: "reboot: SIGTERM"}, Watchdog: true},
			"previous boot 11111111: clean: reboot: SIGTERM; that hung, and the hardware watchdog reset the machine"},
		{"no disk", Evidence{Err: ErrNoDisk}, "previous boot ?: unknown: the state partition, which would tell, is not there"},
		{"no disk, a panic", Evidence{Err: ErrNoDisk, Harvested: panicked("sysrq")}, "previous boot ?: kernel panic: sysrq"},
		{"first boot", Evidence{Err: ErrBlank}, "previous boot ?: unknown: no boot before this one is on record"},
		{"torn journal", Evidence{Err: errors.New("boot journal: corrupt")}, "previous boot ?: unknown: boot journal: corrupt"},
	} {
		v := Judge(c.e)
		if got := v.String(); got != c.want {
			t.Errorf("%s:\n got %s\nwant %s", c.name, got, c.want)
		}
		// init and warden count what they do; an agent's crash is no restart.
		byOthers := v.End == WatchdogEnd || v.End == KernelDeath || strings.Contains(v.Text, "Attempted to kill init")
		if v.Uncounted != byOthers {
			t.Errorf("%s: uncounted is %t", c.name, v.Uncounted)
		}
	}
}

func TestEntrySurvives(t *testing.T) {
	for _, want := range []Entry{
		{BootID: "b", Build: "x"},
		{BootID: "b", Build: "x", Clean: true, Reason: "reboot: asked by operator"},
		{BootID: "b", Build: "x", Doomed: "no sign of the agent for 1m40s"},
	} {
		got, err := ParseEntry(want.Encode())
		if err != nil || got != want {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	long := Entry{BootID: "b", Build: strings.Repeat("x", 999), Clean: true, Reason: strings.Repeat("\x01", 9999)}.Encode()
	if got, err := ParseEntry(long); err != nil || len(long) != entrySize || got.BootID != "b" || !got.Clean || got.Reason == "" {
		t.Errorf("a long one: %v, %v", got, err)
	}
	for i := range long {
		long[i] ^= 1
		if _, err := ParseEntry(long); !errors.Is(err, ErrCorrupt) {
			t.Errorf("byte %d: %v", i, err)
		}
		long[i] ^= 1
	}
}
