package console

import "time"

const (
	// firstRate is what a console is believed to drain before it was seen to:
	// 9600 baud. A faster one doubles it with every queue found empty.
	firstRate = 960.0
	// minRate keeps an estimate that a pause spoilt from never recovering.
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
	// wake-ups a second at most, and no line late by more than half a second.
	minPoll = 20 * time.Millisecond
	maxPoll = 500 * time.Millisecond
	// minSample is how long or how many bytes make a drain measurement: less
	// says more about the reader's rhythm than about its rate.
	minSample      = 200 * time.Millisecond
	minSampleBytes = 64
)

// pacer decides how many bytes a console may be given now: a token bucket at
// the rate it drains, and a shallow queue. It is pure: time is an argument.
type pacer struct {
	max     float64 // bytes per second that the line can carry
	rate    float64 // bytes per second that it is believed to drain
	known   bool    // a drain was measured while the queue was not empty
	tokens  float64
	filled  time.Time // when tokens were added last
	queued  int       // bytes in the tty queue, as of the last look plus writes
	refused bool      // the last write was refused (EAGAIN)

	sampled  time.Time // start of the drain measurement
	backlog  int       // bytes that were or came into the queue since
	progress time.Time // when bytes were last seen to go, or none waited
	drained  int       // bytes seen to leave since the start
}

func newPacer(max float64, now time.Time) pacer {
	rate := min(firstRate, max)
	return pacer{max: max, rate: rate, tokens: minDepth, filled: now, sampled: now, progress: now}
}

// observe takes the length of the tty queue.
func (p *pacer) observe(now time.Time, queued int) {
	p.tokens = min(p.tokens+p.rate*now.Sub(p.filled).Seconds(), p.depth())
	p.filled = now
	if gone := p.queued - queued; gone > 0 {
		p.drained += gone
		p.progress = now
	}
	if queued == 0 && !p.refused {
		p.progress = now
	}
	p.queued = queued
	p.measure(now)
}

// measure adapts the rate once a sample is long enough to mean something.
func (p *pacer) measure(now time.Time) {
	dt := now.Sub(p.sampled)
	gone := p.backlog - p.queued
	switch {
	case p.backlog == 0:
	case dt < minPoll:
		return
	case p.queued == 0:
		// It drained sooner than we looked: at least this fast. Raise the
		// estimate only if it was what held us back.
		if float64(gone)/dt.Seconds() >= 0.9*p.rate {
			p.raise()
		}
	case dt < minSample && gone < minSampleBytes:
		return
	default:
		p.settle(float64(gone) / dt.Seconds())
	}
	p.rate = min(max(p.rate, minRate), p.max)
	p.sampled, p.backlog = now, p.queued
}

// settle takes a measured rate: at once if it is the first, or far below
// what was believed, else half way, since a reader has a rhythm.
func (p *pacer) settle(measured float64) {
	if !p.known || measured < p.rate/2 {
		p.rate = measured
	} else {
		p.rate += (measured - p.rate) / 2
	}
	p.known = true
}

func (p *pacer) raise() {
	if p.known {
		p.rate *= 1.125
	} else {
		p.rate *= 2
	}
}

// wrote notes an accepted write of n bytes.
func (p *pacer) wrote(now time.Time, n int) {
	if p.backlog == 0 {
		p.sampled = now
	}
	if n > 0 {
		p.progress = now
	}
	p.tokens -= float64(n)
	p.queued += n
	p.backlog += n
}

// flushed notes that the tty queue was thrown away.
func (p *pacer) flushed(now time.Time) {
	p.queued, p.backlog = 0, 0
	p.sampled, p.progress = now, now
	p.refused = false
	p.tokens = p.depth()
}

func (p *pacer) depth() float64 { return max(p.rate*queueTime.Seconds(), minDepth) }

// admits tells whether n more bytes may be written. A line longer than the
// whole depth goes when nothing else is queued.
func (p *pacer) admits(n int) bool {
	if p.queued == 0 {
		return p.tokens >= min(float64(n), p.depth())
	}
	return p.tokens >= float64(n) && float64(p.queued+n) <= p.depth()
}

// wait is how long it takes, at the present rate, until n more bytes are
// admitted; the queue is let run half empty, so that a wake-up is worth it.
func (p *pacer) wait(n int) time.Duration {
	need := max(min(float64(n), p.depth())-p.tokens, float64(p.queued)-max(min(p.depth()/2, p.depth()-float64(n)), 0))
	return min(max(seconds(need/p.rate), minPoll), maxPoll)
}

// stalled tells whether bytes wait and none went for stallAfter.
func (p *pacer) stalled(now time.Time) bool {
	return (p.queued > 0 || p.refused) && now.Sub(p.progress) >= stallAfter
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
