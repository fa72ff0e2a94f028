package console

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"
)

func rec(seq uint64, level Level, text string) Record {
	return Record{Seq: seq, Level: level, Text: text}
}

func TestOldestOfTheLeastImportantGoesFirst(t *testing.T) {
	ls := lanes{budgets: budgets{}}
	ls.pace(1)                                                                               // the least backlog: 1200 bytes
	text := func(i int) string { return fmt.Sprintf("%03d %s", i, strings.Repeat("x", 64)) } // costs 100
	for i := range 12 {
		ls.offer(rec(uint64(i), []Level{Info, Warn, Stage, Error}[i%4], text(i)), false)
	}
	if ls.dropped.Total() != 0 {
		t.Fatalf("dropped %v before it was full", ls.dropped)
	}
	for i := range 4 {
		ls.offer(rec(uint64(100+i), Error, text(100+i)), false)
	}
	// Four errors came, so the three infos and the oldest warning went.
	if want := (Counts{Info: 3, Warn: 1}); ls.dropped != want {
		t.Errorf("dropped %v, want %v", ls.dropped, want)
	}
	var order strings.Builder
	for {
		w, ok := ls.next(1)
		if !ok {
			break
		}
		fmt.Fprintf(&order, "%c%.3s ", w.Level.Letter(), w.Text)
	}
	if want := "E003 E007 E011 E100 E101 E102 E103 S002 S006 S010 W005 W009 "; order.String() != want {
		t.Errorf("order %s, want %s", order.String(), want)
	}
	if ls.bytes != 0 || ls.pending != 0 {
		t.Errorf("%d bytes, %d records left", ls.bytes, ls.pending)
	}
}

// Whatever is offered and taken: nothing is counted twice or forgotten, and
// the bounds hold.
func FuzzLanes(f *testing.F) {
	f.Add([]byte{0, 1, 2, 3, 4, 5, 255, 254, 253}, 200)
	f.Fuzz(func(t *testing.T, ops []byte, rate int) {
		ls := lanes{budgets: budgets{}}
		ls.pace(float64(rate))
		var taken uint64
		for i, op := range ops {
			switch {
			case op < 240:
				ls.offer(rec(uint64(i), Level(op%6), strings.Repeat("x", int(op)*int(op)/8)), op%16 == 0)
			case op < 250:
				if w, ok := ls.next(float64(rate)); ok && op < 245 {
					taken += w.times
				} else if ok {
					ls.putBack(w)
				}
			case op < 253:
				ls.forget(int(op-250) * 2)
			default:
				ls.pace(float64(i))
			}
			if got := taken + ls.dropped.Total() + ls.pending; got != ls.logged.Total() {
				t.Fatalf("%d of %d records accounted for", got, ls.logged.Total())
			}
			if ls.bytes < 0 || ls.bytes > maxBacklog+excerptBytes+32 || ls.crash < 0 || ls.crash > maxCrashBacklog+maxTrace+64 {
				t.Fatalf("%d bytes wait, %d of crashes", ls.bytes, ls.crash)
			}
		}
	})
}

// line is a model of what drains a tty queue.
type line struct {
	rate   float64
	bursts bool // QEMU with a full socket: nothing until that is 3/4 empty
	socket float64
	shut   bool
	late   int // milliseconds that a look at the queue is late at most
}

// take is what drains of queue bytes in dt seconds.
func (l *line) take(queue, dt float64) float64 {
	if !l.bursts {
		return min(queue, l.rate*dt)
	}
	const full, resume = 278, 70
	taken := 0.0
	for step := dt / 20; dt > step/2; dt -= step {
		l.socket = max(l.socket-l.rate*step, 0)
		l.shut = l.shut && l.socket > resume
		if n := min(queue-taken, full-l.socket); !l.shut {
			l.socket += n
			taken += n
			l.shut = l.socket >= full
		}
	}
	return taken
}

// A line's true rate is found from above and from below, whatever its rhythm,
// and on a machine that always looks late.
func TestPacerFindsTheRate(t *testing.T) {
	for _, l := range []line{{rate: 50}, {rate: 200}, {rate: 960}, {rate: 5000}, {rate: 11520},
		{rate: 100, bursts: true}, {rate: 200, bursts: true}, {rate: 960, bursts: true},
		{rate: 200, late: 400}, {rate: 960, late: 400}, {rate: 11520, late: 400}} {
		t.Run(fmt.Sprint(l.rate, " bursts ", l.bursts, " late ", l.late), func(t *testing.T) {
			random := rand.New(rand.NewPCG(1, 2))
			now := time.Unix(0, 0)
			p := newPacer(11520, now)
			queue, sent, peak, believed, n := 0.0, 0, 0.0, 0.0, 0
			for end := now.Add(60 * time.Second); now.Before(end); {
				p.observe(now, int(queue))
				for p.admits(80) {
					p.wrote(now, 80)
					queue += 80
					sent += 80
				}
				pause := p.wait(80) + time.Duration(random.IntN(l.late+1))*time.Millisecond
				now = now.Add(pause)
				queue -= l.take(queue, pause.Seconds())
				if now.Sub(time.Unix(0, 0)) > 10*time.Second {
					peak, believed, n = max(peak, queue), believed+p.rate, n+1
				}
			}
			believed /= float64(n)
			t.Logf("believes %.0f B/s, queues %.0f bytes, sends %.0f B/s", believed, peak, float64(sent)/60)
			if believed < 0.7*l.rate || believed > 1.4*l.rate {
				t.Errorf("believes %.0f B/s", believed)
			}
			if peak > max(l.rate/2, minDepth+1) {
				t.Errorf("queues %.0f bytes", peak)
			}
			if used := float64(sent) / 60 / l.rate; used < 0.75 && l.late == 0 {
				t.Errorf("uses %.0f %% of the line", used*100)
			}
		})
	}
}

// TestPacerOnABusyMachine boots on one: the looks at the queue come late, when
// even a slow line has drained it, and few lines come. Then comes a burst. What
// the tty queue holds of it, a crash right behind it has to wait for.
func TestPacerOnABusyMachine(t *testing.T) {
	for i := range 40 {
		l := []line{{rate: 200}, {rate: 960}, {rate: 200, bursts: true}, {rate: 960, bursts: true}}[i%4]
		t.Run(fmt.Sprint(l.rate, " bursts ", l.bursts, " ", i), func(t *testing.T) {
			const lineBytes, burst = 60, 8 * time.Second
			random := rand.New(rand.NewPCG(1, uint64(i)))
			began := time.Unix(0, 0)
			now, p := began, newPacer(11520, began)
			queue, waiting, next, peak := 0.0, 12, began.Add(time.Second), 0.0
			for now.Before(began.Add(burst + time.Second)) {
				for ; !next.After(now); next = next.Add(400 * time.Millisecond) {
					waiting += int(l.rate / 200) // less than the line carries
				}
				if peak == 0 && now.Sub(began) > burst {
					waiting += 100
				}
				p.observe(now, int(queue))
				for p.wanting = false; waiting > 0 && p.admits(lineBytes); waiting-- {
					p.wrote(now, lineBytes)
					queue += lineBytes
				}
				if now.Sub(began) > burst {
					peak = max(peak, queue)
				}
				pause := p.wait(lineBytes)
				if waiting == 0 {
					pause = maxPoll
				}
				pause += time.Duration(random.IntN(600)) * time.Millisecond
				now = now.Add(pause)
				queue -= l.take(queue, pause.Seconds())
			}
			t.Logf("believes %.0f B/s, queues %.0f bytes", p.rate, peak)
			if peak > max(l.rate, minDepth+lineBytes) {
				t.Errorf("%.0f bytes of the burst are in the tty queue, %.1f s", peak, peak/l.rate)
			}
		})
	}
}
