package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"sync"
	"time"
)

// Pace is how fast the far end of a serial line reads: what a BMC's
// serial-over-LAN does to a node. The zero Pace is Unlimited.
type Pace struct {
	rate int // bytes per second; 0 is unlimited
	stop int // bytes until it reads no more; 0 is never
}

// Unlimited reads whatever comes.
func Unlimited() Pace { return Pace{} }

// Limited reads that many bytes a second.
func Limited(bytesPerSecond int) Pace { return Pace{rate: bytesPerSecond} }

// StopsAfter reads n bytes as they come, then keeps the line open and reads
// nothing more: a terminal server that hangs.
func StopsAfter(n int) Pace { return Pace{stop: max(n, 1)} }

func (p Pace) String() string {
	switch {
	case p.stop > 0:
		return fmt.Sprintf("stops after %d bytes", p.stop)
	case p.rate > 0:
		return fmt.Sprintf("%d B/s", p.rate)
	}
	return "unlimited"
}

// Chunk is what one read brought.
type Chunk struct {
	At   time.Time // host time; the guest's runs late while it waits for a UART
	Data []byte
}

// tick is how often a limited reader reads: often enough that the guest sees a
// steady line, seldom enough to cost nothing.
const tick = 50 * time.Millisecond

// readSize is the most that an unlimited reader takes at once.
const readSize = 64 << 10

// Port is the far end of one serial port of a node. It outlives the node's
// power: what it read is kept from the first boot to the last.
type Port struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced whenever something below changes
	data    []byte
	chunks  []Chunk
	mark    int
	pace    Pace
	left    int // until pace.stop
	conn    net.Conn
	tee     io.Writer
}

func newPort(pace Pace) *Port {
	p := &Port{changed: make(chan struct{})}
	p.SetPace(pace)
	return p
}

// SetPace changes how the port is read from now on; StopsAfter counts anew.
func (p *Port) SetPace(pace Pace) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.pace, p.left = pace, pace.stop
	if p.conn != nil {
		// Ends a read that was begun at the old pace.
		_ = p.conn.SetReadDeadline(time.Unix(1, 0))
	}
	p.wake()
}

// Resume reads on without limit.
func (p *Port) Resume() { p.SetPace(Unlimited()) }

// Tee copies what is read to w as well, beginning now; nil ends it. A slow w
// slows the reading.
func (p *Port) Tee(w io.Writer) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.tee = w
}

// Bytes returns everything read so far.
func (p *Port) Bytes() []byte {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]byte(nil), p.data...)
}

// Chunks returns everything read so far, with the times.
func (p *Port) Chunks() []Chunk {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]Chunk(nil), p.chunks...)
}

// Mark makes Wait look only at what is read from now on, and returns how many
// bytes came before. PowerOn and Reset mark every port.
func (p *Port) Mark() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.mark = len(p.data)
	return p.mark
}

// Wait returns the first match, with its groups, in what was read since the last
// Mark. Its error holds the last lines read.
func (p *Port) Wait(ctx context.Context, re *regexp.Regexp) ([]string, error) {
	for {
		// Before the search, so that what came before the end is still found.
		ended := ctx.Err() != nil
		p.mu.Lock()
		since, changed := p.data[p.mark:], p.changed
		p.mu.Unlock()
		if m := re.FindSubmatch(since); m != nil {
			groups := make([]string, len(m))
			for i := range m {
				groups[i] = string(m[i])
			}
			return groups, nil
		}
		if ended {
			return nil, fmt.Errorf("wait for %q: %w\n%s", re, context.Cause(ctx), p.tail())
		}
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}

// tailSize is what an error shows of a port: about a screen.
const tailSize = 2000

// tail is the end of what was read, indented for an error message.
func (p *Port) tail() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.data) == 0 {
		return "serial port: nothing was read"
	}
	end := p.data[max(0, len(p.data)-tailSize):]
	return fmt.Sprintf("serial port, last %d of %d bytes:\n%s", len(end), len(p.data), end)
}

// Write types on the port.
func (p *Port) Write(b []byte) (int, error) {
	p.mu.Lock()
	conn := p.conn
	p.mu.Unlock()
	if conn == nil {
		return 0, errors.New("write to serial port: the node is off")
	}
	return conn.Write(b)
}

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
