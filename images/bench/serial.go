package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"sync"
	"time"
)

// Chunk is what one read brought.
type Chunk struct {
	At   time.Time // host time; the guest's runs late while it waits for a UART
	Data []byte
}

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
		settle(ctx)
	}
}

// settleTime keeps a long wait from searching a long text for each few bytes
// that are added to it, and is too short for a person, or a boot, to notice.
const settleTime = 10 * time.Millisecond

func settle(ctx context.Context) {
	timer := time.NewTimer(settleTime)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
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
