package console

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reveille/internal/synctest"
)

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

// TestLostInterrupt: a transmitter that fell asleep is woken within seconds.
func TestLostInterrupt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		port := newFakePort(0)
		port.asleep = 11520
		b := newBench(t, port, Options{})
		defer b.close()
		b.log.Append("x", Info, "to be seen")
		time.Sleep(stallAfter + 3*probeEvery)
		if text := b.port.text(); b.stats().Stalled || !strings.Contains(text, "took nothing for") {
			t.Errorf("stalled %t, shown %q", b.stats().Stalled, text)
		}
		b.settle()
		checkExact(t, b, "x")
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

// TestPulledPort: a card is pulled in a flood, in all phases of the writer's
// rhythm. What was read and counts as not shown had left since the writer looked
// last: no more than a quarter of a second's lines.
func TestPulledPort(t *testing.T) {
	const rate, line = 960, len("[    5.000] x             I line 100\n")
	most := uint64(rate*queueTime.Seconds())/uint64(line) + 1
	for phase := range 20 {
		synctest.Test(t, func(t *testing.T) {
			b := newBench(t, newFakePort(rate), Options{})
			defer b.close()
			b.engine.Show(Shows{{"x", Info}})
			n := 100
			b.run(5*time.Second+time.Duration(phase)*17*time.Millisecond, 30*time.Millisecond, func() {
				b.log.Append("x", Info, fmt.Sprint("line ", n))
				n++
			})
			b.port.set(rate, unix.EIO)
			time.Sleep(maxPoll)
			shown := b.stats().Shown
			b.port.set(rate, nil)
			read, _ := account(b.port.text(), "x")
			if read < shown || read-shown > most {
				t.Errorf("phase %d: %d lines were read, %d count as shown; at most %d may differ", phase, read, shown, most)
			}
			b.settle()
			all, counted := account(b.port.text(), "")
			if s := b.stats(); all+counted-s.Logged != read-shown {
				t.Errorf("phase %d: %d read and %d counted of %d, %d of them twice", phase, all, counted, s.Logged, read-shown)
			}
		})
	}
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

// panicPort has a bug that shows once.
type panicPort struct {
	*fakePort
	done bool
}

func (p *panicPort) Queued() (int, error) {
	if time.Since(p.last) > 4*time.Second && !p.done {
		p.done = true
		panic("port bug")
	}
	return p.fakePort.Queued()
}

func TestWriterSurvivesABug(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		log := NewLog(DefaultLimits(), func() time.Duration { return time.Since(start) })
		e := NewEngine(log, Options{State: func() []string { return []string{"stage steady"} }})
		defer e.Close(context.Background())
		port := &panicPort{fakePort: newFakePort(11520)}
		e.Add(serial, func() (Port, error) { return port, nil })
		log.Append("x", Info, "before")
		time.Sleep(20 * time.Second)
		log.Append("x", Info, "after")
		time.Sleep(time.Second)
		text := port.text()
		for _, want := range []string{"before", "took nothing for 1s", "stage steady", "after"} {
			if !strings.Contains(text, want) {
				t.Errorf("no %q in\n%s", want, text)
			}
		}
		if recs, _, _ := log.Read(1, Filter{Min: Warn}, 9); len(recs) != 1 || recs[0].Text != "ttyS0: write console: bug: port bug; next try in 1s" {
			t.Errorf("the log has %+v", recs)
		}
	})
}

func TestWriterSurvivesAPanickingState(t *testing.T) {
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
