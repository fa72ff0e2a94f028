package console

import (
	"strings"
	"sync"
	"syscall"
	"time"
)

// ttyBuffer is the size of the kernel's tty queue, measured on an 8250.
const ttyBuffer = 4095

// fakePort behaves like a UART under Linux: it accepts into a bounded queue,
// refuses with EAGAIN when that is full, and drains at a rate.
type fakePort struct {
	mu     sync.Mutex
	rate   float64 // bytes per second; 0: dead
	err    error   // what every call returns
	blind  bool    // Queued always says 0, as a pty does
	asleep float64 // the rate that it goes on with when it is kicked
	queue  []byte
	carry  float64
	last   time.Time
	out    []byte
	stamps []stamp // when each line was complete at the far end
	line   []byte
	flush  int
	looks  int // calls of Queued
	peak   int // longest queue seen
	attach []bool
	closed bool
}

type stamp struct {
	at   time.Time
	line string
}

func newFakePort(rate float64) *fakePort { return &fakePort{rate: rate, last: time.Now()} }

func (p *fakePort) drain() {
	now := time.Now()
	p.carry += p.rate * now.Sub(p.last).Seconds()
	begin := p.last
	p.last = now
	n := min(int(p.carry), len(p.queue))
	for i, c := range p.queue[:n] {
		if p.line = append(p.line, c); c == '\n' {
			at := begin.Add(time.Duration(float64(i+1) / p.rate * 1e9))
			p.stamps = append(p.stamps, stamp{at, strings.TrimRight(string(p.line), "\r\n")})
			p.line = nil
		}
	}
	p.out = append(p.out, p.queue[:n]...)
	p.queue = p.queue[n:]
	if p.carry -= float64(n); len(p.queue) == 0 {
		p.carry = 0
	}
}

func (p *fakePort) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return 0, p.err
	}
	p.drain()
	n := min(len(b), ttyBuffer-len(p.queue))
	if n == 0 {
		return 0, syscall.EAGAIN
	}
	p.queue = append(p.queue, b[:n]...)
	p.peak = max(p.peak, len(p.queue))
	return n, nil
}

func (p *fakePort) Queued() (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.looks++
	if p.err != nil {
		return 0, p.err
	}
	p.drain()
	if p.blind {
		return 0, nil
	}
	return len(p.queue), nil
}

func (p *fakePort) Flush() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return p.err
	}
	p.drain()
	p.flush++
	p.queue = nil
	return nil
}

func (p *fakePort) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	return nil
}

// Kick wakes a port that lost an interrupt.
func (p *fakePort) Kick() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drain()
	p.rate += p.asleep
	p.asleep = 0
	return p.err
}

func (p *fakePort) Attach(on bool) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.attach = append(p.attach, on)
	return nil
}

// set changes the behaviour from now on.
func (p *fakePort) set(rate float64, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drain()
	p.rate, p.err = rate, err
}

// text is what came out at the far end, with plain line ends.
func (p *fakePort) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drain()
	return strings.ReplaceAll(string(p.out), "\r\n", "\n")
}

func (p *fakePort) lines() []stamp {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.drain()
	return p.stamps
}

func (p *fakePort) opener() Opener { return func() (Port, error) { return p, nil } }
