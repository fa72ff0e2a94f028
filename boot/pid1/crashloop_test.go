package pid1

import (
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"reveille/internal/synctest"
)

func TestCrashLoop(t *testing.T) {
	for _, c := range []struct {
		name  string
		every time.Duration
		at    int // the death that makes it a loop; 0: none of 30
	}{
		{"at once", 500 * time.Millisecond, 10},
		{"each minute", time.Minute, 10},
		{"at the edge", loopWindow / (loopDeaths - 1), 10},
		{"now and then", loopWindow/(loopDeaths-1) + time.Second, 0},
	} {
		var loop crashLoop
		got := 0
		for n := 1; n <= 30 && got == 0; n++ {
			if loop.died(time.Duration(n) * c.every) {
				got = n
			}
		}
		if got != c.at {
			t.Errorf("%s: a loop at death %d, want %d", c.name, got, c.at)
		}
	}
}

// TestNoStorm plays a machine that dies as soon as it may, for a day.
func TestNoStorm(t *testing.T) {
	var now time.Duration
	reboots := 0
	for now < 24*time.Hour {
		now += max(earliest(reboots), 5*time.Second)
		reboots++
	}
	if reboots > 30 {
		t.Errorf("%d reboots in a day", reboots)
	}
	if earliest(0) != 0 || earliest(1) != firstBackoff || earliest(1<<30) != lastBackoff {
		t.Error("bounds: ", earliest(0), earliest(1), earliest(1<<30))
	}
}

// newDisk is a ledger on a file system of its own.
func newDisk(t *testing.T) ledger {
	t.Helper()
	dir, err := os.MkdirTemp("/dev/shm", "ledger-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return newLedger("/dev/shm", filepath.Join(filepath.Base(dir), "reveille/reboots"))
}

func TestLedger(t *testing.T) {
	l := newLedger(t.TempDir(), "reveille/reboots")
	if _, err := l.count(); err != errNoPartition {
		t.Errorf("counted on no partition: %v", err)
	}
	if err := l.set(1); err != errNoPartition {
		t.Errorf("wrote on no partition: %v", err)
	}
	if now, wait, err := l.force(10 * time.Second); now || wait != uncounted-10*time.Second || err == nil {
		t.Errorf("without a partition: %t, %s, %v", now, wait, err)
	}
	if now, _, _ := l.force(uncounted); !now {
		t.Error("without a partition a reboot is never due")
	}

	l = newDisk(t)
	if n, err := l.count(); n != 0 || err != nil {
		t.Fatalf("first count: %d, %v", n, err)
	}
	if now, _, err := l.force(time.Second); !now || err != nil {
		t.Errorf("the first is not due at once: %v", err)
	}
	if now, wait, err := l.force(time.Second); now || wait != firstBackoff-time.Second || err != nil {
		t.Errorf("the second: %t, %s, %v", now, wait, err)
	}
	if now, _, err := l.force(firstBackoff); !now || err != nil {
		t.Errorf("the second is never due: %v", err)
	}
	if n, err := l.count(); n != 2 || err != nil {
		t.Errorf("count: %d, %v", n, err)
	}
	if err := os.WriteFile(filepath.Join(l.mount, l.name), []byte("\xff\xff"), 0o600); err != nil {
		t.Fatal(err)
	}
	if n, err := l.count(); n != 0 || err != nil {
		t.Errorf("of rubbish: %d, %v", n, err)
	}
}

// TestOneQuestionToAHungDisk: however often a crash loop asks, one thread hangs.
func TestOneQuestionToAHungDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLedger("/", "none")
		hang := make(chan struct{})
		var hung atomic.Int32
		question := func() (int, error) { hung.Add(1); <-hang; return 7, nil }
		for range 10 {
			if _, err := l.ask(question); !errors.Is(err, errNoAnswer) {
				t.Errorf("an answer: %v", err)
			}
		}
		if n := hung.Load(); n != 1 {
			t.Errorf("%d threads hang", n)
		}
		close(hang) // the disk comes back
		synctest.Wait()
		if n, err := l.ask(question); n != 7 || err != nil {
			t.Errorf("got %d, %v", n, err)
		}
	})
}

func TestBoundedGivesUp(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	if _, err := bounded(10*time.Millisecond, func() (int, error) { <-hang; return 1, nil }); err == nil {
		t.Error("waited for ever")
	}
}
