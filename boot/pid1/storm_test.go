package pid1

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"reveille/boot/crash"
)

// TestResetsAreCounted: a boot that follows a watchdog's reset counts it, and
// has watchdog and kernel wait the longer the more of them there were.
func TestResetsAreCounted(t *testing.T) {
	i := newInit(Options{})
	defer i.screens.Close(context.Background())
	var set []setting // and this machine's kernel is left alone
	i.sysctl = func(s setting) error { set = append(set, s); return nil }
	i.forced = newDisk(t)
	for n := range 3 {
		i.judged(crash.Verdict{End: crash.WatchdogEnd, Uncounted: true})
		i.judged(crash.Verdict{End: crash.InitCrash}) // the warden counted it
		if got, err := i.forced.count(); got != n+1 || err != nil || i.inRow.Load() != int64(n+1) {
			t.Errorf("counted %d, known %d, %v", got, i.inRow.Load(), err)
		}
	}
	if n := len(set); n > 0 && set[n-1] != (setting{"kernel/panic", "480"}) { // none if this machine's command line has panic=
		t.Errorf("the kernel was told %v", set)
	}
	if log := wholeLog(i); strings.Count(log, "restarts in a row") != 3 || !strings.Contains(log, "restarts in a row that nobody asked for: 3; the next one not before 8m0s of uptime") {
		t.Errorf("log:\n%s", log)
	}
	i.calm(0)
	i.forced = newLedger(t.TempDir(), "none")
	i.judged(crash.Verdict{End: crash.WatchdogEnd, Uncounted: true})
	if i.inRow.Load() != 1 {
		t.Error("without a disk, this boot does not know of the reset before it")
	}
}

func TestPatienceGrows(t *testing.T) {
	for _, c := range []struct {
		forced, dog int
		panic       string
	}{{0, 60, "10"}, {1, 120, "120"}, {2, 240, "240"}, {4, 600, "960"}, {1000, 600, "3600"}} {
		if got := dogPatience(c.forced); got != c.dog {
			t.Errorf("%d: the watchdog waits %d s", c.forced, got)
		}
		if s := panicSetting("quiet", c.forced); len(s) != 1 || s[0].value != c.panic {
			t.Errorf("%d: %v", c.forced, s)
		}
	}
	if s := panicSetting("panic=-1", 3); s != nil {
		t.Errorf("over the command line: %v", s)
	}
}

// TestFedOrNot is what the watchdog sees of faults and of the stop.
func TestFedOrNot(t *testing.T) {
	i, _ := newTestInit(t, "")
	i.turn()
	if fault := i.fault(); fault != "" {
		t.Errorf("in good health: %s", fault)
	}
	i.mu.Lock()
	i.heard = time.Now().Add(-time.Hour)
	i.mu.Unlock()
	var fed complaint
	if fault := i.fault(); fault == "" || i.deserves(fault, 0, 60, &fed) {
		t.Errorf("a silent agent: %q, and fed", fault)
	}
	if !i.deserves(i.fault(), time.Minute, 60, &fed) || !i.deserves(i.fault(), time.Second, 60, &fed) {
		t.Error("reset again, too soon")
	}
	i.inRow.Store(4)
	if got := i.patience(); got != 600 {
		t.Errorf("the watchdog waits %d s", got)
	}
	if got := strings.Count(wholeLog(i), "restarts did not help: the next one in 1m0s"); got != 1 {
		t.Errorf("said %d times", got)
	}
	i.step(time.Second) // the agent is of no matter any more
	if fault := i.fault(); fault != "" {
		t.Errorf("in the first step of a stop: %s", fault)
	}
	if got := i.patience(); got != watchdogTimeout || i.tooSoon() != 0 {
		t.Errorf("a stop that hangs is borne for %s and then %d s", i.tooSoon(), got)
	}
	i.step(-stepSlack)
	if fault := i.fault(); fault != "the ordered stop does not go on" {
		t.Errorf("a step that is over: %q", fault)
	}
}

// TestWatchdogIsFedThroughTheStop, whose steps may take longer than a chip with
// a short count waits. The device is a file, which a meal makes longer.
func TestWatchdogIsFed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "watchdog")
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dog, err := openWatchdogAt(path)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if err := dog.feed(); err != nil {
			t.Error(err)
		}
	}
	if b, err := os.ReadFile(path); string(b) != "\x00\x00\x00" || err != nil {
		t.Errorf("it got %q, %v", b, err)
	}
	for seconds, want := range map[int]time.Duration{60: 5 * time.Second, 10: 2500 * time.Millisecond, 1: 500 * time.Millisecond, 600: 5 * time.Second} {
		dog.seconds = seconds
		if got := dog.interval(); got != want {
			t.Errorf("%d s: fed every %s, want %s", seconds, got, want)
		}
	}
	if got := (*watchdog)(nil).interval(); got != feedEvery {
		t.Errorf("none is looked for every %s", got)
	}
}
