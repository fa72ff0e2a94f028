package console

import (
	"context"
	"fmt"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"
	"time"
)

func benchEngine(b *testing.B, rate float64) *Log {
	log := NewLog(DefaultLimits(), BootTime)
	e := NewEngine(log, Options{})
	e.Show(Shows{{"*", Debug}}) // all of it has its turn
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
// logs a thousand lines a second. Of a thousand calls 999 are to return within
// 1 ms. The caller pauses between calls, as callers
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

// A service floods its output, and every console is dead: how much of it is
// taken in, and what memory that needs at most, garbage included. 50 MB/s are
// to be taken in.
func BenchmarkFlood(b *testing.B) {
	log := benchEngine(b, 0)
	line := strings.Repeat("0123456789", 10)[:99] + "\n"
	input := strings.Repeat(line, 1_000_000/len(line))
	b.SetBytes(int64(len(input)))
	before, peak := heapObjects(), uint64(0)
	for b.Loop() {
		if err := Copy(log, strings.NewReader(input), "svc/flood", Info); err != nil {
			b.Fatal(err)
		}
		peak = max(peak, heapObjects())
	}
	b.ReportMetric(float64(peak-before)/(1<<20), "peak-MiB")
}

// heapObjects is what lies on the heap, dead objects included until they are
// swept. Reading it stops nobody.
func heapObjects() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}
