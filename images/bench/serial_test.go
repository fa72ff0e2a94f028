package bench

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"reveille/internal/synctest"
)

// line is a node that writes without end to a port, on a fake clock.
type line struct {
	*Port
	written atomic.Int64
	off     chan struct{}
	node    net.Conn
	ended   chan struct{}
}

func plug(pace Pace) *line {
	l := &line{Port: newPort(pace), off: make(chan struct{}), ended: make(chan struct{})}
	far, near := net.Pipe()
	l.node = near
	l.attach(far)
	go func() {
		defer close(l.ended)
		l.serve(far, l.off)
	}()
	return l
}

// flood writes n bytes and hangs up; it ends early when the far end does.
func (l *line) flood(n int) {
	go func() {
		for i := range n {
			if _, err := l.node.Write([]byte{"0123456789\n"[i%11]}); err != nil {
				return
			}
			l.written.Add(1)
		}
		l.node.Close()
	}()
}

// A pipe passes one write at a time, which is the worst case for a limited
// reader: many small reads must not slow it.
func TestLimitedReaderKeepsItsRate(t *testing.T) {
	for _, rate := range []int{1, 200, 960, 11520} {
		synctest.Test(t, func(t *testing.T) {
			l := plug(Limited(rate))
			begin := time.Now()
			l.flood(10 * rate)
			<-l.ended
			took := time.Since(begin)
			if took < 9900*time.Millisecond || took > 10100*time.Millisecond {
				t.Errorf("%d B/s: 10 seconds' bytes took %s", rate, took)
			}
			chunks := l.Chunks()
			if last := chunks[len(chunks)-1].At.Sub(begin); last > took || last < took-2*time.Second {
				t.Errorf("%d B/s: last chunk at %s of %s", rate, last, took)
			}
			if len(l.Bytes()) != 10*rate {
				t.Errorf("%d B/s: %d bytes kept", rate, len(l.Bytes()))
			}
		})
	}
}

func TestStoppedReader(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := plug(StopsAfter(100))
		l.flood(1000)
		time.Sleep(time.Hour)
		if n := len(l.Bytes()); n != 100 {
			t.Fatalf("read %d bytes, want 100", n)
		}
		if n := l.written.Load(); n != 100 {
			t.Errorf("the node could write %d bytes, want 100", n)
		}
		l.SetPace(StopsAfter(50)) // counts anew
		time.Sleep(time.Hour)
		if n := len(l.Bytes()); n != 150 {
			t.Fatalf("read %d bytes, want 150", n)
		}
		l.Resume()
		<-l.ended
		if n := len(l.Bytes()); n != 1000 {
			t.Errorf("after it resumed, %d bytes, want 1000", n)
		}
	})
}

// The end of the node, or of the bench, ends a reader that would not read.
func TestStoppedReaderEnds(t *testing.T) {
	for name, end := range map[string]func(*line){
		"the node goes off":     func(l *line) { close(l.off) },
		"the bench lets it go":  func(l *line) { l.hangUp() },
		"the reader goes on":    func(l *line) { l.Resume() },
		"it gets slow, and off": func(l *line) { l.SetPace(Limited(1)); l.hangUp() },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := plug(StopsAfter(1))
				l.flood(10)
				synctest.Wait()
				end(l)
				<-l.ended
				l.node.Close()
			})
		})
	}
}

func TestPaceChangesDuringRead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := plug(Unlimited())
		synctest.Wait() // it waits in a read of any size
		l.SetPace(StopsAfter(3))
		synctest.Wait()
		go func() { _, _ = l.node.Write([]byte("abcdef")) }()
		time.Sleep(time.Second)
		if got := string(l.Bytes()); got != "abc" {
			t.Errorf("read %q", got)
		}
		l.SetPace(Limited(1)) // a second each, until it is let go
		time.Sleep(1500 * time.Millisecond)
		l.Resume()
		synctest.Wait()
		if got := string(l.Bytes()); got != "abcdef" {
			t.Errorf("read %q", got)
		}
		l.hangUp()
		<-l.ended
	})
}

func TestWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := plug(Unlimited())
		var seen bytes.Buffer
		l.Tee(&seen)
		go func() {
			_, _ = io.WriteString(l.node, "boot 1 rea")
			time.Sleep(time.Second)
			_, _ = io.WriteString(l.node, "dy\n")
		}()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		m, err := l.Wait(ctx, regexp.MustCompile(`boot (\d+) ready`))
		if err != nil || m[1] != "1" {
			t.Fatalf("%q, %v", m, err)
		}
		synctest.Wait()
		if seen.String() != "boot 1 ready\n" {
			t.Errorf("tee saw %q", &seen)
		}
		if before := l.Mark(); before != 13 {
			t.Errorf("%d bytes before the mark", before)
		}
		_, err = l.Wait(ctx, regexp.MustCompile("ready"))
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "boot 1 ready") {
			t.Errorf("an error without its cause or the tail: %v", err)
		}
		l.hangUp()
		<-l.ended
		if _, err := l.Write([]byte("x")); err == nil {
			t.Error("typed on a node that is off")
		}
	})
}
