package pid1

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"time"

	"reveille/boot/proc"
	"reveille/console"
)

// logLimit is a token bucket over the bytes that a service writes. What is over
// it is read, so that nobody waits, counted and thrown away: a service that
// writes 50 MB/s must cost init no more than the reading.
type logLimit struct {
	rate, burst float64 // bytes a second; bytes
	tell        func(dropped uint64)
	now         func() time.Duration

	mu      sync.Mutex // stdout and stderr share it
	left    float64
	filled  time.Duration
	dropped uint64
	told    time.Duration
}

// tellEvery is how often a service that goes on writing too much is told of.
const tellEvery = 10 * time.Second

func newLogLimit(rate, burst uint64, now func() time.Duration, tell func(uint64)) *logLimit {
	most := max(float64(burst), float64(rate)) // a second's worth at least: else nothing ever fits
	return &logLimit{rate: float64(rate), burst: most, left: most, now: now, filled: now(), tell: tell}
}

// take tells whether n bytes are kept.
func (l *logLimit) take(n int) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.now()
	l.left = min(l.burst, l.left+l.rate*(now-l.filled).Seconds())
	l.filled = now
	if l.dropped > 0 && now-l.told >= tellEvery {
		l.tell(l.dropped)
		l.dropped, l.told = 0, now
	}
	if l.left < float64(n) {
		if l.dropped == 0 {
			l.told = now
		}
		l.dropped += uint64(n)
		return false
	}
	l.left -= float64(n)
	return true
}

// flush tells of what is not told yet.
func (l *logLimit) flush() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.dropped > 0 {
		l.tell(l.dropped)
		l.dropped = 0
	}
}

// limitedReader passes on what a limit keeps, cut at the ends of lines.
type limitedReader struct {
	from  io.Reader
	limit *logLimit
	gap   bool // something was thrown away since the last line that was kept
}

func (r *limitedReader) Read(p []byte) (int, error) {
	for {
		n, err := r.from.Read(p)
		if n > 0 && !r.limit.take(n) {
			if !r.gap && err == nil {
				r.gap = true
				p[0] = '\n' // ends what was kept of a line
				return 1, nil
			}
			n = 0
		}
		if n > 0 && r.gap {
			_, rest, found := bytes.Cut(p[:n], []byte{'\n'})
			n = copy(p, rest)
			r.gap = !found
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// bounded takes what a service says into the log as far as its limit goes.
func (i *Init) bounded(origin string, rate, burst uint64) proc.Output {
	read := i.lines(origin)
	status := func(text string) { i.log.Append(origin, console.Info, "status: "+text) }
	if rate == 0 {
		return proc.Output{Stdout: read, Stderr: read, Status: status}
	}
	limit := newLogLimit(rate, burst, console.BootTime, func(dropped uint64) {
		i.log.Append(origin, console.Warn, fmt.Sprintf("-- %d bytes not kept: more than %d bytes a second --", dropped, rate))
	})
	limited := func(r io.Reader) {
		read(&limitedReader{from: r, limit: limit})
		limit.flush()
	}
	return proc.Output{Stdout: limited, Stderr: limited, Status: func(text string) {
		if limit.take(len(text)) {
			status(text)
		}
	}}
}
