package bench

import (
	"errors"
	"net"
	"os"
	"time"
)

// tick is how often a limited reader reads: often enough that the guest sees a
// steady line, seldom enough to cost nothing.
const tick = 50 * time.Millisecond

// readSize is the most that an unlimited reader takes at once.
const readSize = 64 << 10

// wake tells the waiting that something changed. The caller holds mu.
func (p *Port) wake() {
	close(p.changed)
	p.changed = make(chan struct{})
}

// attach connects the port to a node that has just been powered on.
func (p *Port) attach(conn net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conn = conn
}

// serve reads from the attached connection at the port's pace until it ends, or,
// if the reader is stopped, until the node is off.
func (p *Port) serve(conn net.Conn, off <-chan struct{}) {
	defer p.hangUp()
	buf := make([]byte, readSize)
	var due time.Time // when the line is ready for more
	for {
		p.mu.Lock()
		n, changed, rate, gone := p.allowance(), p.changed, p.pace.rate, p.conn != conn
		_ = conn.SetReadDeadline(time.Time{})
		p.mu.Unlock()
		if gone {
			return
		}
		if n == 0 {
			select {
			case <-changed: // perhaps another pace
				continue
			case <-off:
				return
			}
		}
		n, err := conn.Read(buf[:n])
		p.record(buf[:n])
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return
		}
		due = p.rest(due, n, rate)
	}
}

// allowance is how many bytes the next read may take; 0 means stopped. The
// caller holds mu.
func (p *Port) allowance() int {
	switch {
	case p.pace.stop > 0:
		return min(p.left, readSize)
	case p.pace.rate > 0:
		return min(max(1, p.pace.rate*int(tick)/int(time.Second)), readSize)
	}
	return readSize
}

// rest waits as long as n bytes take at that rate, counted from when the last
// ones were through, so that a late timer does not slow the line. A new pace
// ends the waiting.
func (p *Port) rest(due time.Time, n, rate int) time.Time {
	if rate == 0 || n == 0 {
		return due
	}
	now := time.Now()
	if due.Before(now.Add(-tick)) {
		due = now
	}
	due = due.Add(time.Duration(n) * time.Second / time.Duration(rate))
	timer := time.NewTimer(due.Sub(now))
	defer timer.Stop()
	for {
		p.mu.Lock()
		changed, same := p.changed, p.pace.rate == rate && p.conn != nil
		p.mu.Unlock()
		if !same {
			return due
		}
		select {
		case <-timer.C:
			return due
		case <-changed:
		}
	}
}

func (p *Port) record(b []byte) {
	if len(b) == 0 {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	data := append([]byte(nil), b...)
	p.data = append(p.data, data...)
	p.chunks = append(p.chunks, Chunk{At: time.Now(), Data: data})
	p.left = max(0, p.left-len(b))
	if p.tee != nil {
		// Whoever watches is a convenience; what is kept is data.
		_, _ = p.tee.Write(data)
	}
	p.wake()
}

// hangUp closes the connection, which ends serve.
func (p *Port) hangUp() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.conn != nil {
		p.conn.Close()
		p.conn = nil
		p.wake()
	}
}
