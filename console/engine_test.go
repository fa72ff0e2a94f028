package console

import (
	"context"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"reveille/internal/synctest"
)

var serial = Spec{Name: "ttyS0", Kind: Serial, Baud: 115200}

// bench is an engine on a fake clock with one fake console.
type bench struct {
	t      *testing.T
	log    *Log
	engine *Engine
	port   *fakePort
	start  time.Time
}

func newBench(t *testing.T, port *fakePort, opts Options) *bench {
	start := time.Now()
	log := NewLog(DefaultLimits(), func() time.Duration { return time.Since(start) })
	b := &bench{t: t, log: log, engine: NewEngine(log, opts), port: port, start: start}
	b.engine.Add(serial, port.opener())
	synctest.Wait()
	return b
}

func (b *bench) close() { b.engine.Close(context.Background()) }

// run lets time pass while something logs at the given interval.
func (b *bench) run(d, every time.Duration, do func()) {
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(every) {
		do()
	}
}

// settle lets the console show all that waits.
func (b *bench) settle() { settle(b.engine) }

func settle(e *Engine) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	e.Settle(ctx)
	time.Sleep(2 * noticeEvery)
	e.Settle(ctx)
}

func (b *bench) stats() Stats { return b.engine.Stats()[0] }

var (
	noticeRE = regexp.MustCompile(`(?m)^-- \d+ lines? not shown \((.*)\); all are in the log --$`)
	timesRE  = regexp.MustCompile(` x(\d+)$`)
)

// account adds up what the far end saw: lines of the origin, repeats
// included, and the counts in drop notices.
func account(text, origin string) (shown, counted uint64) {
	for line := range strings.Lines(text) {
		line = strings.TrimRight(line, "\n")
		if m := noticeRE.FindStringSubmatch(line); m != nil {
			for part := range strings.SplitSeq(m[1], ", ") {
				n, _ := strconv.ParseUint(part[2:], 10, 64)
				counted += n
			}
		} else if strings.HasPrefix(line, "[") && strings.Contains(line, "] "+origin) && !strings.Contains(line, "] state ") {
			n := uint64(1)
			if m := timesRE.FindStringSubmatch(line); m != nil {
				n, _ = strconv.ParseUint(m[1], 10, 64)
			}
			shown += n
		}
	}
	return shown, counted
}

func TestQuietConsoleShowsEverythingInOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newFakePort(11520), Options{})
		defer b.close()
		for i := range 20 {
			b.log.Append("netcfg", Level(i%5), fmt.Sprintf("line %d", i))
			time.Sleep(50 * time.Millisecond)
		}
		b.settle()
		text := b.port.text()
		at := -1
		for i := range 20 {
			next := strings.Index(text, fmt.Sprintf("line %d\n", i))
			if next <= at {
				t.Fatalf("line %d is missing or out of order in:\n%s", i, text)
			}
			at = next
		}
		if !strings.Contains(text, "[    0.000] netcfg        D line 0\n") {
			t.Errorf("line format:\n%s", text)
		}
	})
}

// The console rates that people have; a flood of 50 MB comes with a stage
// change a second.
func TestFlood(t *testing.T) {
	for _, rate := range []float64{200, 960, 11520} {
		t.Run(fmt.Sprint(rate), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t, newFakePort(rate), Options{})
				defer b.close()
				b.engine.Show(Shows{{"chatty", Info}})
				n := 0
				fatal := time.Time{}
				b.run(60*time.Second, 10*time.Millisecond, func() {
					for range 5 {
						b.log.Append("chatty", Info, fmt.Sprintf("flood %d %s", n, strings.Repeat("x", n%60)))
						n++
					}
					if n == 5*3000 {
						fatal = time.Now()
						b.log.Append("chatty", Error, "FATAL: the line that matters")
					}
				})
				checkDepth(t, b, rate)
				checkFresh(t, b)
				checkFatal(t, b, fatal)
				b.settle()
				checkExact(t, b, "chatty")
				if got := len(b.port.text()); float64(got) < 0.6*rate*60 {
					t.Errorf("only %d bytes shown in 60 s: the line is not used", got)
				}
			})
		})
	}
}

// checkDepth: in the steady state a quarter of a second, or one line, waits
// in the tty queue.
func checkDepth(t *testing.T, b *bench, rate float64) {
	t.Helper()
	b.port.mu.Lock()
	defer b.port.mu.Unlock()
	if limit := max(rate/2, 240+minDepth); float64(b.port.peak) > limit {
		t.Errorf("up to %d bytes in the tty queue, want at most %v", b.port.peak, limit)
	}
}

var floodRE = regexp.MustCompile(`^\[ *([0-9.]+)\]`)

// checkFresh: at no time is the newest line on the console older than 30 s.
func checkFresh(t *testing.T, b *bench) {
	t.Helper()
	newest, oldest := 0.0, 0.0
	for _, s := range b.port.lines() {
		now := s.at.Sub(b.start).Seconds()
		oldest = max(oldest, now-newest)
		if m := floodRE.FindStringSubmatch(s.line); m != nil {
			at, _ := strconv.ParseFloat(m[1], 64)
			newest = max(newest, at)
		}
	}
	if oldest > 30 || newest == 0 {
		t.Errorf("the newest line was %.1f s old", oldest)
	}
}

func checkFatal(t *testing.T, b *bench, sent time.Time) {
	t.Helper()
	for _, s := range b.port.lines() {
		if strings.Contains(s.line, "FATAL") {
			if late := s.at.Sub(sent); late > 2*time.Second {
				t.Errorf("the fatal line came after %v", late)
			}
			return
		}
	}
	t.Error("the fatal line never came")
}

// checkExact: shown + counted = logged, by the far end and by Stats.
func checkExact(t *testing.T, b *bench, origin string) {
	t.Helper()
	s := b.stats()
	if s.Shown+s.Dropped.Total()+s.Waiting != s.Logged || s.Waiting != 0 {
		t.Errorf("stats do not add up: %+v", s)
	}
	shown, counted := account(b.port.text(), "")
	if shown+counted != s.Logged {
		t.Errorf("%s: far end saw %d lines and %d counted = %d, logged %d", origin, shown, counted, shown+counted, s.Logged)
	}
}

func TestRepeatsCollapse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newFakePort(960), Options{})
		defer b.close()
		for range 500 {
			b.log.Append("a", Warn, "link flaps")
			b.log.Append("b", Warn, "so does mine")
		}
		b.settle()
		if text := b.port.text(); strings.Count(text, "\n") > 12 || !strings.Contains(text, "link flaps x") {
			t.Errorf("repeats:\n%s", text)
		}
		checkExact(t, b, "a")
	})
}

func TestThresholds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newFakePort(11520), Options{Threshold: Info})
		defer b.close()
		b.engine.SetThreshold("svc/db", Never)
		b.log.Append("svc/db", Error, "service output")
		b.log.Append("netcfg", Debug, "detail")
		b.log.Add(Entry{Origin: KernelOrigin, Level: Info, Text: "kernel detail", RingOnly: true})
		b.log.Append("netcfg", Info, "visible")
		b.settle()
		if got := b.port.text(); strings.Contains(got, "detail") || strings.Contains(got, "service") || !strings.Contains(got, "visible") {
			t.Errorf("console shows:\n%s", got)
		}
		if recs, _, _ := b.log.Read(1, Filter{}, 10); len(recs) != 4 {
			t.Errorf("ring holds %d records, want 4", len(recs))
		}
	})
}
