package console

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"reveille/internal/synctest"
)

// say has an origin say n lines at a time and tells how many it may.
func say(bs budgets, origin string, level Level, at time.Duration, n int) (allowed int) {
	for range n {
		if bs.allow(Record{Origin: origin, Level: level, Uptime: at}) {
			allowed++
		}
	}
	return allowed
}

func TestBudgets(t *testing.T) {
	const n = 10_000
	bs := budgets{}
	for _, c := range []struct {
		name   string
		origin string
		level  Level
		at     time.Duration
		want   int
	}{
		{"a burst", "join", Info, time.Minute, burstLines},
		{"and no more", "join", Info, time.Minute, 0},
		{"a warning all the same", "join", Warn, time.Minute, burstLines},
		{"every error", "join", Error, time.Minute, n},
		{"every change of stage", "join", Stage, time.Minute, n},
		{"another origin", "netcfg", Info, time.Minute, burstLines},
		{"the kernel", KernelOrigin, Warn, time.Minute, n},
		{"a second later", "join", Info, time.Minute + time.Second, steadyLines},
		{"a record that comes late", "join", Info, time.Second, 0},
		{"after a rest", "join", Info, time.Hour, burstLines},
	} {
		if got := say(bs, c.origin, c.level, c.at, n); got != c.want {
			t.Errorf("%s: %d lines, want %d", c.name, got, c.want)
		}
	}
}

// Whoever makes up origins shares one budget, and takes no more memory.
func TestBudgetsOfManyOrigins(t *testing.T) {
	bs := budgets{}
	allowed := 0
	for i := range 10_000 {
		allowed += say(bs, fmt.Sprint("origin", i), Info, time.Minute, 1)
	}
	if want := maxBudgets + burstLines; allowed != want || len(bs) > maxBudgets+numLanes {
		t.Errorf("%d lines, want %d; %d budgets", allowed, want, len(bs))
	}
}

// A flood over its budget costs an idle console nothing but the line that tells
// of it, within seconds.
func TestOverBudgetWakesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newFakePort(11520), Options{})
		defer b.close()
		n := 0
		b.run(20*time.Second, time.Millisecond, func() {
			b.log.Append("join", Info, fmt.Sprint("line ", n))
			n++
		})
		if most := 20 * int(time.Second/minPoll); b.port.looks > most {
			t.Errorf("the console was looked at %d times, want at most %d", b.port.looks, most)
		}
		if !strings.Contains(b.port.text(), "lines not shown (I ") {
			t.Errorf("nothing is told of the others:\n%s", b.port.text())
		}
		b.settle()
		checkExact(t, b, "join")
	})
}
