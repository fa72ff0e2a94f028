package console

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"reveille/internal/synctest"
)

func TestCrashIsFirstAndContiguous(t *testing.T) {
	for _, rate := range []float64{200, 960, 11520} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, newFakePort(rate), Options{})
				defer b.close()
				n := 0
				flood := func() {
					for range 5 {
						b.log.Append("chatty", Level(n%4), fmt.Sprintf("flood %d", n))
						n++
					}
				}
				b.run(10*time.Second, 10*time.Millisecond, flood)
				c := Summarise(testFacts, textOf(panicText))
				sent := time.Now()
				c.Publish(b.log)
				b.run(20*time.Second, 10*time.Millisecond, flood)
				text := b.port.text()
				want := strings.Join(c.Summary, "\n") + "\n"
				if !strings.Contains(text, want) {
					t.Fatalf("no whole summary:\n%s", text)
				}
				if !strings.Contains(text, "bytes:\n"+panicText+"-- end of trace --\n") {
					t.Errorf("no contiguous trace:\n%s", text)
				}
				last := c.Summary[len(c.Summary)-1]
				for _, s := range b.port.lines() {
					if s.line == last && s.at.Sub(sent) > 3*time.Second {
						t.Errorf("summary complete only after %v", s.at.Sub(sent))
					}
				}
				b.settle()
				checkStats(t, b)
			})
		})
	}
}

func checkStats(t *testing.T, b *bench) {
	t.Helper()
	if s := b.stats(); s.Shown+s.Dropped.Total()+s.Waiting != s.Logged || s.Waiting != 0 {
		t.Errorf("stats do not add up: %+v", s)
	}
}

func TestCrashOnDeadConsoleIsShownWhenItRevives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newFakePort(0), Options{})
		defer b.close()
		b.log.Append("x", Info, "fills the queue a bit")
		c := Summarise(testFacts, textOf(panicText))
		c.Publish(b.log)
		time.Sleep(time.Minute)
		b.port.set(960, nil)
		b.settle()
		if !strings.Contains(b.port.text(), "bytes:\n"+panicText+"-- end of trace --\n") {
			t.Errorf("the crash is lost:\n%s", b.port.text())
		}
		checkStats(t, b)
	})
}

// A trace has a console for ten seconds, whatever was believed of the line
// before; a very slow one shows the least all the same.
func TestHugeTraceIsCutAndSaysSo(t *testing.T) {
	for _, c := range []struct {
		before, rate float64
		least, most  int // bytes of console for all
	}{
		{960, 960, 960 * 9, 960 * 13},
		{11520, 960, 960 * 9, 960 * 15}, // what is queued then is gone late
		{960, 11520, maxTrace * 9 / 10, maxTrace + 1024},
		{50, 50, minTraceBudget, minTraceBudget + 1024},
	} {
		t.Run(fmt.Sprint(c.before, " then ", c.rate), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, newFakePort(c.before), Options{})
				defer b.close()
				b.run(10*time.Second, 10*time.Millisecond, func() { b.log.Append("x", Error, fmt.Sprint("line at ", time.Now())) })
				b.settle()
				shown := len(b.port.text())
				b.port.set(c.rate, nil)
				hugeCrash().Publish(b.log)
				b.log.Append("x", Info, "life goes on")
				b.settle()
				text := b.port.text()[shown:]
				if !regexp.MustCompile(`-- 1\d\.\d MB of trace not shown; all that was kept is in the log --\n`).MatchString(text) {
					t.Errorf("the cut is not told:\n%s", text[max(0, len(text)-500):])
				}
				if len(text) < c.least || len(text) > c.most || !strings.Contains(text, "life goes on") {
					t.Errorf("%d bytes of console for one crash, want %d to %d", len(text), c.least, c.most)
				}
				checkStats(t, b)
			})
		})
	}
}

func hugeCrash() *CrashReport {
	col := NewCrashCollector(DefaultCrashHead, DefaultCrashTail, nil)
	col.Write([]byte(panicText))
	for i := range 200000 {
		fmt.Fprintf(col, "\ngoroutine %d [chan receive]:\nmain.worker(0x1)\n\t/src/main.go:10 +0x1d\n", i)
	}
	c := Summarise(testFacts, col.Text())
	return &c
}
