package console

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reveille/internal/synctest"
)

// Fifty goroutines log for two minutes while consoles stall, fail and revive
// and come; afterwards the books balance. The time is synctest's, so that stalls
// of many seconds fit in. CI runs it under the race detector and, since a bubble
// there has one processor, once more without it, on all of them.
func TestStress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		log := NewLog(DefaultLimits(), func() time.Duration { return time.Since(start) })
		e := NewEngine(log, Options{State: func() []string { return []string{"stage steady"} }})
		ports := make([]*fakePort, 5)
		for i := range ports {
			ports[i] = newFakePort(50000)
			ports[i].blind = i == 3
		}
		add := func(i int) {
			e.Add(Spec{Name: fmt.Sprint("ttyS", i), Kind: Hypervisor}, ports[i].opener())
		}
		for i := range 4 {
			add(i)
		}
		followed := follow(t, log)
		var group, chaos sync.WaitGroup
		for g := range 50 {
			group.Go(func() { chatter(log, e, g) })
		}
		stop := make(chan struct{})
		chaos.Go(func() { disturb(ports, stop) })
		time.Sleep(time.Minute)
		add(4) // a console that comes late
		group.Wait()
		close(stop)
		chaos.Wait()
		revive(t, log, e, ports)
		for _, s := range e.Stats() {
			if s.Shown+s.Dropped.Total()+s.Waiting != s.Logged || s.Shown == 0 || s.Dropped.Total() == 0 {
				t.Errorf("books do not balance: %+v", s)
			}
		}
		for i, p := range ports {
			if !p.closed || !strings.Contains(p.text(), "end of trace") {
				t.Errorf("port %d: closed %v, crash shown %v", i, p.closed, strings.Contains(p.text(), "end of trace"))
			}
		}
		if n := followed(); n != log.Next()-1 {
			t.Errorf("follower accounts for %d of %d records", n, log.Next()-1)
		}
	})
}

// revive has all ports drain, shows a crash on all, ends the engine, and wants
// to have seen what this test is for.
func revive(t *testing.T, log *Log, e *Engine, ports []*fakePort) {
	for _, p := range ports {
		p.set(1e6, nil)
	}
	time.Sleep(2 * reopenMax)
	c := Summarise(testFacts, textOf(panicText))
	c.Publish(log)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	if !e.Settle(ctx) {
		t.Errorf("does not settle: %+v", e.Stats())
	}
	e.Last(time.Second, "done")
	e.Close(ctx)
	recs, _, _ := log.Read(1, Filter{Origins: []string{"console"}}, 1<<20)
	for _, what := range []string{": stalled, ", "takes output again", "input/output error"} {
		n := 0
		for _, r := range recs {
			n += strings.Count(r.Text, what)
		}
		t.Logf("%q: %d times", what, n)
		if n < 5 {
			t.Errorf("%q only %d times: the consoles had it too easy", what, n)
		}
	}
}

func chatter(log *Log, e *Engine, g int) {
	for i := range 1200 {
		log.Append(fmt.Sprint("origin", g%7), Level(i%5), fmt.Sprintf("goroutine %d line %d", g, i))
		switch i % 100 {
		case 50:
			e.SetThreshold(fmt.Sprint("origin", g%7), Level(i/100%4))
		case 51:
			e.Stats()
		case 52:
			e.Show(Shows{{fmt.Sprint("origin", g%3), Level(g % 5)}})
		}
		// Many wake at the same instant.
		time.Sleep(time.Duration(rand.IntN(20)) * 10 * time.Millisecond)
	}
}

// disturb changes how ports behave, each for longer than a stall takes to be
// seen.
func disturb(ports []*fakePort, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rand.IntN(2000)) * time.Millisecond):
		}
		p := ports[rand.IntN(len(ports))]
		switch rand.IntN(5) {
		case 0, 1:
			p.set(0, nil)
		case 2:
			p.set(50000, unix.EIO)
		default:
			p.set(float64(rand.IntN(20000)), nil)
		}
	}
}

// follow counts what a slow follower sees and is told it lost.
func follow(t *testing.T, log *Log) (total func() uint64) {
	f := log.Follow(1, Filter{})
	ctx, cancel := context.WithCancel(t.Context())
	var n uint64
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			recs, lost, err := f.Next(ctx, 10)
			if err != nil {
				return
			}
			n += uint64(len(recs)) + lost
			runtime.Gosched()
		}
	}()
	return func() uint64 {
		cancel()
		<-done
		for f.cursor < log.Next() {
			recs, lost := f.take(1000)
			n += uint64(len(recs)) + lost
		}
		_, lost := f.take(1)
		f.Close()
		return n + lost
	}
}

func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for tick := time.Tick(20 * time.Millisecond); !ok(); {
		select {
		case <-tick:
		case <-deadline:
			t.Fatal("waited a minute in vain")
		}
	}
}

// Memory stays bounded whatever comes: 10 MB through one pipe.
func TestMemoryIsBounded(t *testing.T) {
	log := NewLog(DefaultLimits(), BootTime)
	e := NewEngine(log, Options{})
	for i := range 4 {
		e.Add(Spec{Name: fmt.Sprint("ttyS", i)}, newFakePort(0).opener())
	}
	defer e.Close(context.Background())
	before := heap()
	line := strings.Repeat("0123456789", 9) + "\n"
	input := strings.NewReader(strings.Repeat(line, 10_000_000/len(line)))
	began := time.Now()
	if err := Copy(log, input, "svc/flood", Info); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	grown := int64(heap()) - int64(before) - input.Size()
	t.Logf("10 MB in %v, heap grew by %d kB", took, grown/1000)
	if grown > 3<<20 {
		t.Errorf("heap grew by %d bytes", grown)
	}
	runtime.KeepAlive(input)
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
