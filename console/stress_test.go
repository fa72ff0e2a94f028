package console

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// Fifty goroutines log while consoles stall, fail and revive; afterwards the
// books balance. Real time and real threads, for the race detector.
func TestStress(t *testing.T) {
	log := NewLog(DefaultLimits(), BootTime)
	e := NewEngine(log, Options{State: func() []string { return []string{"stage steady"} }})
	ports := make([]*fakePort, 4)
	for i := range ports {
		ports[i] = newFakePort(50000)
		ports[i].blind = i == 3
		e.Add(Spec{Name: fmt.Sprint("ttyS", i), Kind: Hypervisor}, ports[i].opener())
	}
	stop := make(chan struct{})
	var group sync.WaitGroup
	for g := range 50 {
		group.Go(func() { chatter(log, e, g) })
	}
	var chaos sync.WaitGroup
	chaos.Go(func() { disturb(ports, stop) })
	followed := follow(t, log)
	group.Wait()
	close(stop)
	chaos.Wait()
	for _, p := range ports {
		p.set(1e6, nil)
	}
	c := Summarise(testFacts, textOf(panicText))
	c.Publish(log)
	waitFor(t, func() bool {
		log.Append("end", Info, "tick") // a failed console is opened again only in time
		return !slices.ContainsFunc(e.Stats(), func(s Stats) bool { return s.Stalled || s.Waiting > 5 })
	})
	e.Last(time.Second, "done")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	e.Settle(ctx)
	e.Close(ctx)
	for _, s := range e.Stats() {
		if s.Shown+s.Dropped.Total()+s.Waiting != s.Logged {
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
}

func chatter(log *Log, e *Engine, g int) {
	for i := range 200 {
		log.Append(fmt.Sprint("origin", g%7), Level(i%5), fmt.Sprintf("goroutine %d line %d", g, i))
		switch i % 100 {
		case 50:
			e.SetThreshold(fmt.Sprint("origin", g%7), Level(i/100))
		case 51:
			e.Stats()
		case 99:
			time.Sleep(time.Millisecond)
		}
	}
}

func disturb(ports []*fakePort, stop chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(2 * time.Millisecond):
		}
		p := ports[rand.IntN(len(ports))]
		switch rand.IntN(10) {
		case 0:
			p.set(0, nil)
		case 1:
			p.set(50000, unix.EIO)
		default:
			p.set(float64(rand.IntN(1000000)), nil)
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

func benchEngine(b *testing.B, rate float64) *Log {
	log := NewLog(DefaultLimits(), BootTime)
	e := NewEngine(log, Options{})
	for i := range 4 {
		e.Add(Spec{Name: fmt.Sprint("ttyS", i)}, newFakePort(rate).opener())
	}
	b.Cleanup(func() { e.Close(context.Background()) })
	return log
}

// Lines per second into the ring with four live consoles.
func BenchmarkAppendFourConsoles(b *testing.B) {
	log := benchEngine(b, 11520)
	b.SetBytes(100)
	b.ReportAllocs()
	line := strings.Repeat("x", 90)
	for i := 0; b.Loop(); i++ {
		log.Append("bench", Info, fmt.Sprint(line, i))
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "lines/s")
}

// The latency of a log call with all consoles dead, while another goroutine
// logs a thousand lines a second. The caller pauses between calls, as callers
// do: a busy loop would measure how the machine shares its processors.
func BenchmarkAppendAllDead(b *testing.B) {
	log := benchEngine(b, 0)
	line := strings.Repeat("x", 90)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		for tick := time.Tick(time.Millisecond); ctx.Err() == nil; <-tick {
			log.Append("other", Info, line)
		}
	}()
	pause := time.NewTicker(100 * time.Microsecond)
	defer pause.Stop()
	var all []time.Duration
	for i := 0; b.Loop(); i++ {
		<-pause.C
		text := fmt.Sprint(line, i)
		began := time.Now()
		log.Append("bench", Info, text)
		all = append(all, time.Since(began))
	}
	slices.Sort(all)
	b.ReportMetric(float64(all[len(all)/2].Nanoseconds()), "p50-ns")
	b.ReportMetric(float64(all[len(all)*999/1000].Nanoseconds()), "p99.9-ns")
	b.ReportMetric(float64(all[len(all)-1].Nanoseconds()), "max-ns")
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
