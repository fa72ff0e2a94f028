package console

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
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
func (b *bench) settle() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	b.engine.Settle(ctx)
	time.Sleep(2 * noticeEvery)
	b.engine.Settle(ctx)
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
		} else if strings.Contains(line, "] "+origin) && !strings.Contains(line, "] state ") {
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

func TestDeadThenRevived(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		stage := "stage network"
		b := newBench(t, newFakePort(0), Options{State: func() []string { return []string{stage} }})
		defer b.close()
		n := 0
		flood := func() { b.log.Append("netcfg", Info, fmt.Sprintf("old news %d", n)); n++ }
		b.run(30*time.Second, 20*time.Millisecond, flood)
		if s := b.stats(); !s.Stalled || s.Shown > 5 {
			t.Fatalf("a dead console is not stalled: %+v", s)
		}
		stage = "stage join: waiting 12s"
		b.log.Append("join", Error, "refused by the controller")
		b.port.set(960, nil)
		time.Sleep(3 * time.Second)
		text := b.port.text()
		for _, want := range []string{"-- ttyS0 took nothing for", "lines not shown (", "S stage join: waiting 12s", "E refused by the controller"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q after revival:\n%s", want, text)
			}
		}
		if strings.Count(text, "old news") > 6 {
			t.Errorf("stale backlog after revival:\n%s", text)
		}
		b.run(5*time.Second, 500*time.Millisecond, flood)
		b.settle()
		checkExact(t, b, "netcfg")
	})
}

func TestBlindPortStallsAndRevives(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		port := newFakePort(0)
		port.blind = true
		b := newBench(t, port, Options{})
		defer b.close()
		n := 0
		flood := func() { b.log.Append("x", Info, fmt.Sprintf("a line that fills the queue %d", n)); n++ }
		b.run(30*time.Second, 5*time.Millisecond, flood)
		if !b.stats().Stalled {
			t.Fatal("refused writes do not count as a stall")
		}
		port.set(11520, nil)
		b.run(5*time.Second, 100*time.Millisecond, flood)
		if b.stats().Stalled {
			t.Fatal("still stalled")
		}
		b.settle()
	})
}

func TestFailingDevice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		log := NewLog(DefaultLimits(), func() time.Duration { return time.Since(start) })
		e := NewEngine(log, Options{})
		defer e.Close(context.Background())
		opened := 0
		dead, good := newFakePort(0), newFakePort(11520)
		dead.err = unix.EIO
		e.Add(serial, func() (Port, error) {
			if opened++; opened == 1 {
				return nil, errors.New("open /dev/ttyS0: no such device")
			}
			return dead, nil
		})
		e.Add(Spec{Name: "ttyS1", Kind: Serial}, good.opener())
		for i := range 1000 {
			log.Append("x", Info, fmt.Sprintf("line %d", i))
			time.Sleep(100 * time.Millisecond)
		}
		if opened < 4 || opened > 10 {
			t.Errorf("opened %d times in 100 s", opened)
		}
		if !strings.Contains(good.text(), "ttyS0: read queue length: input/output error; next try in") {
			t.Errorf("the other console does not tell:\n%s", good.text())
		}
		if s := e.Stats(); !s[0].Stalled || s[1].Stalled || s[1].Shown < 1000 {
			t.Errorf("stats: %+v", s)
		}
	})
}

func TestBlockingOpen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		log := NewLog(DefaultLimits(), func() time.Duration { return time.Since(start) })
		e := NewEngine(log, Options{})
		port := newFakePort(11520)
		e.Add(serial, func() (Port, error) { time.Sleep(31 * time.Second); return port, nil })
		log.Append("x", Info, "said while opening")
		e.Last(5*time.Millisecond, "not heard")
		if d := time.Since(start); d > 5*time.Millisecond {
			t.Errorf("callers waited %v", d)
		}
		time.Sleep(35 * time.Second)
		if !strings.Contains(port.text(), "said while opening") {
			t.Errorf("nothing shown after a late open: %q", port.text())
		}
		e.Close(context.Background())
		if !port.closed || port.flush == 0 {
			t.Error("closed without a flush")
		}
	})
}

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

func TestHugeTraceIsCutAndSaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newFakePort(960), Options{})
		defer b.close()
		col := NewCrashCollector(DefaultCrashHead, DefaultCrashTail, nil)
		col.Write([]byte(panicText))
		for i := range 200000 {
			fmt.Fprintf(col, "\ngoroutine %d [chan receive]:\nmain.worker(0x1)\n\t/src/main.go:10 +0x1d\n", i)
		}
		c := Summarise(testFacts, col.Text())
		c.Publish(b.log)
		b.log.Append("x", Info, "life goes on")
		b.settle()
		text := b.port.text()
		if !regexp.MustCompile(`-- 1\d\.\d MB of trace not shown; all that was kept is in the log --\n`).MatchString(text) {
			t.Errorf("the cut is not told:\n%s", text[max(0, len(text)-500):])
		}
		if len(text) > 960*13 || !strings.Contains(text, "life goes on") {
			t.Errorf("%d bytes of console for one crash", len(text))
		}
	})
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

func TestCarelessCallers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newFakePort(11520), Options{})
		defer b.close()
		var hosts []string
		for i := range 10000 {
			hosts = append(hosts, fmt.Sprintf("host-%d", i))
		}
		b.log.Append("join", Info, strings.Join(hosts, "\n"))
		b.log.Append("join", Info, strings.Join(hosts, " "))
		b.log.Append("join", Info, Examples("controllers", hosts, 3))
		b.settle()
		text := b.port.text()
		if strings.Count(text, "\n") > 20 || !strings.Contains(text, "(+99") ||
			!strings.Contains(text, "10000 controllers: host-0, host-1, host-2 and 9997 more") {
			t.Errorf("%d lines:\n%s", strings.Count(text, "\n"), text)
		}
		for _, h := range hosts {
			b.log.Append("join", Info, h)
		}
		b.settle()
		if n := strings.Count(b.port.text(), "\n"); n > 2500 {
			t.Errorf("%d console lines for 10000 calls", n)
		}
		checkStats(t, b)
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

func TestLastIsFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newFakePort(960), Options{})
		defer b.close()
		for i := range 5000 {
			b.log.Append("x", Info, fmt.Sprintf("backlog %d", i))
		}
		time.Sleep(time.Second)
		before := len(b.port.text())
		b.engine.Last(5*time.Millisecond, "rebooting: agent crashed 5 times in 60s", "next boot waits 30s")
		ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
		defer cancel()
		if !b.engine.Settle(ctx) {
			t.Error("did not settle")
		}
		rest := b.port.text()[before:]
		want := "[    1.000] init          C rebooting: agent crashed 5 times in 60s\n[    1.000] init          C next boot waits 30s\n"
		if i := strings.Index(rest, want); i < 0 || i > 150 {
			t.Errorf("after Last:\n%s", rest)
		}
	})
}

func TestKernelIsDetachedUntilTheConsoleDrains(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, newFakePort(960), Options{})
		defer b.close()
		tick := func() { b.log.Append("x", Info, time.Now().String()) }
		b.run(10*time.Second, time.Second, tick)
		if !b.stats().Attached {
			t.Error("a console that drains is not given to the kernel")
		}
		b.port.set(0, nil)
		b.run(10*time.Second, time.Second, tick)
		if b.stats().Attached {
			t.Error("a stalled console is left to the kernel")
		}
		b.port.set(960, nil)
		b.run(10*time.Second, time.Second, tick)
		b.port.mu.Lock()
		defer b.port.mu.Unlock()
		if got := fmt.Sprint(b.port.attach); got != "[false true false true]" {
			t.Errorf("attach calls: %s", got)
		}
	})
}

func TestWriterSurvivesItsOwnPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		b := newBench(t, newFakePort(0), Options{State: func() []string {
			if calls++; calls == 1 {
				panic("careless")
			}
			return []string{"stage steady"}
		}})
		defer b.close()
		b.log.Append("x", Info, "one")
		time.Sleep(10 * time.Second)
		b.port.set(11520, nil)
		time.Sleep(10 * time.Second)
		b.log.Append("x", Info, "two")
		b.settle()
		if text := b.port.text(); !strings.Contains(text, "bug: careless") || !strings.Contains(text, "two") {
			t.Errorf("console after a panic:\n%s", text)
		}
		checkStats(t, b)
	})
}
