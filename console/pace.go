package console

import (
	"math"
	"time"
)

const (
	// firstRate is what a console is believed to drain before it was seen to:
	// 9600 baud. A faster one doubles it with every queue found empty.
	firstRate = 960.0
	// minRate keeps an estimate that a pause spoilt able to recover.
	minRate = 20.0
	// queueTime is how much output may sit in the kernel's tty queue, where
	// it can no longer be reordered.
	queueTime = 250 * time.Millisecond
	// minDepth is one line: below it nothing could be written whole.
	minDepth = 100
	// stallAfter is how long nothing drains before a console counts as
	// stalled. A BMC pauses up to 2 s while it switches sessions.
	stallAfter = 3 * time.Second
	// minPoll and maxPoll bound the time between two looks at the queue: 50
	// wake-ups a second at most, and a queue that emptied soon refilled.
	minPoll = 20 * time.Millisecond
	maxPoll = 250 * time.Millisecond
	// memory is the time constant of the drain measurement. Readers have a
	// rhythm: a full socket behind a virtual UART takes 200 bytes at once,
	// then nothing for a second at 200 B/s.
	memory = 1500 * time.Millisecond
	// headroom is how much faster than the drain seen so far tokens come, so
	// that a console that got faster can show it.
	headroom = 2
)

// pacer decides how many bytes a console may be given now: a token bucket at
// the rate it drains, and a shallow queue. It is pure: time is an argument.
type pacer struct {
	max    float64 // bytes per second that the line can carry
	rate   float64 // bytes per second that it is believed to drain
	known  bool    // the queue was seen not to empty at once
	tokens float64
	looked time.Time // the last observe

	queued   int       // bytes in the tty queue, as of the last look plus writes
	refused  bool      // the last write was refused (EAGAIN)
	wanting  bool      // more would have been written: the drain is the limit
	gone     float64   // bytes drained while wanting, fading with memory
	time     float64   // seconds of wanting, likewise
	progress time.Time // when bytes were last seen to go, or none waited
	drained  int       // bytes seen to leave since the start
}

func newPacer(max float64, now time.Time) pacer {
	return pacer{max: max, rate: min(firstRate, max), tokens: minDepth, looked: now, progress: now}
}

// observe takes the length of the tty queue.
func (p *pacer) observe(now time.Time, queued int) {
	dt := now.Sub(p.looked).Seconds()
	p.looked = now
	p.tokens = min(p.tokens+min(headroom*p.rate, p.max)*dt, p.depth())
	gone := max(p.queued-queued, 0)
	p.drained += gone
	if gone > 0 || queued == 0 && !p.refused {
		p.progress = now
	}
	p.queued = queued
	if p.wanting {
		p.measure(float64(gone), dt)
	}
}

// measure adapts the rate to what drained in dt seconds.
func (p *pacer) measure(gone, dt float64) {
	if !p.known && p.queued == 0 {
		// It drained before we looked, so it is faster than believed; unless we
		// looked late, as a busy machine does, when any line had the time.
		if gone > p.rate*dt {
			p.rate = min(2*p.rate, p.max)
		}
		return
	}
	if !p.known && dt > 0 {
		// The last doubling was one too many.
		p.known, p.rate = true, max(p.rate/2, min(firstRate, p.max))
	}
	if p.queued == 0 {
		// It may have stood idle since: that says nothing against the line.
		dt = min(dt, gone/p.rate)
	}
	fade := math.Exp(-dt / memory.Seconds())
	p.gone = p.gone*fade + gone
	p.time = p.time*fade + dt
	// Half a second and a line, or a pause too long to be rhythm, make a
	// measurement; less tells of what the hardware buffers.
	if p.time >= 0.5 && p.gone >= minDepth/2 || p.time >= 1 && gone == 0 {
		p.rate = min(max(p.gone/p.time, minRate), p.max)
	}
}

// wrote notes an accepted write of n bytes.
func (p *pacer) wrote(now time.Time, n int) {
	if n > 0 {
		p.progress = now
	}
	p.tokens -= float64(n)
	p.queued += n
}

// flushed notes that the tty queue was thrown away: what is known of the
// drain is as old as that.
func (p *pacer) flushed(now time.Time) {
	p.queued, p.refused = 0, false
	p.progress = now
	p.tokens = p.depth()
}

// restart forgets the drain, as after a stall.
func (p *pacer) restart() {
	p.known, p.gone, p.time = false, 0, 0
	p.rate = min(firstRate, p.max)
}

func (p *pacer) depth() float64 { return max(p.rate*queueTime.Seconds(), minDepth) }

// admits tells whether n more bytes may be written. A line longer than the
// whole depth goes when nothing else is queued.
func (p *pacer) admits(n int) bool {
	enough := p.tokens >= min(float64(n), p.depth())
	room := p.queued == 0 || float64(p.queued+n) <= p.depth()
	p.wanting = !enough || !room
	return !p.wanting
}

// wait is how long it takes, at the present rate, until n more bytes are
// admitted; the queue is let run half empty, so that a wake-up is worth it.
func (p *pacer) wait(n int) time.Duration {
	tokens := min(float64(n), p.depth()) - p.tokens
	target := max(min(p.depth()/2, p.depth()-float64(n)), 0)
	need := max(tokens/headroom, float64(p.queued)-target)
	return min(max(seconds(need/p.rate), minPoll), maxPoll)
}

// stalled tells whether bytes wait and none went for stallAfter.
func (p *pacer) stalled(now time.Time) bool {
	return (p.queued > 0 || p.refused) && now.Sub(p.progress) >= stallAfter
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
