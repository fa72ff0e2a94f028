package dhcp

import (
	"errors"
	"slices"
	"testing"
	"time"

	"reveille/internal/synctest"
)

// clock is a machine that says the time every hour.
type clock struct {
	next    time.Duration
	off     bool
	attempt int
	dropped int
}

func (m *clock) Tick(now time.Duration) []time.Duration {
	if m.off || now < m.next {
		return nil
	}
	m.next = now + time.Hour
	return []time.Duration{now}
}
func (m *clock) Next() time.Duration {
	if m.off {
		return Forever
	}
	return m.next
}
func (m *clock) Down() { m.off = true }
func (m *clock) Status() Status[time.Duration] {
	return Status[time.Duration]{State: "on", Attempt: m.attempt, Dropped: m.dropped}
}
func (m *clock) up(now time.Duration) []time.Duration {
	m.off, m.next = false, now+time.Hour
	return []time.Duration{now}
}

type wire struct {
	sent   []time.Duration
	closed chan struct{}
	fault  error
}

func (w *wire) Close() error { close(w.closed); return nil }

var errCable = errors.New("no cable")

func TestClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		now := func() time.Duration { return time.Since(start) }
		c := NewClient(&clock{off: true}, now, func(bool) {}, func(w *wire, at time.Duration) error {
			w.sent = append(w.sent, at)
			return w.fault
		})
		defer c.Close()
		m := c.machine.(*clock)
		var heard func(func(time.Duration) []time.Duration)
		up := func() *wire {
			w := &wire{closed: make(chan struct{})}
			c.Up(w, m.up, func(h func(func(time.Duration) []time.Duration)) { heard = h; <-w.closed })
			synctest.Wait()
			return w
		}
		first := up()
		time.Sleep(2*time.Hour + time.Minute) // of the bubble
		synctest.Wait()
		if want := []time.Duration{0, time.Hour, 2 * time.Hour}; !slices.Equal(first.sent, want) {
			t.Errorf("sent %v, want %v", first.sent, want)
		}

		late := heard
		second := up()
		<-first.closed
		late(func(now time.Duration) []time.Duration { return []time.Duration{-1} })
		if len(first.sent) != 3 || len(second.sent) != 1 {
			t.Errorf("a packet of a link that is closed was answered: %v, %v", first.sent, second.sent)
		}

		second.fault = errCable
		c.Event(func(time.Duration) []time.Duration { return []time.Duration{1} })
		if s := c.Status(); s.Problem != errCable.Error() {
			t.Errorf("status %+v", s)
		}

		c.Close()
		<-second.closed
		closed := up()
		<-closed.closed
		time.Sleep(48 * time.Hour)
		synctest.Wait()
		if len(second.sent) != 2 || len(closed.sent) != 0 {
			t.Errorf("sent after the end: %v, %v", second.sent, closed.sent)
		}
	})
}

// Packets that change nothing are told to nobody.
func TestClientTellsChanges(t *testing.T) {
	told := 0
	w := &wire{closed: make(chan struct{})}
	c := NewClient(&clock{off: true}, func() time.Duration { return 0 }, func(bool) { told++ },
		func(w *wire, at time.Duration) error { return w.fault })
	defer c.Close()
	m := c.machine.(*clock)
	c.Up(w, m.up, func(func(func(time.Duration) []time.Duration)) {})
	for _, step := range []struct {
		name  string
		event func()
		times int
	}{
		{"nothing", func() {}, 0},
		{"a useless packet", func() { m.dropped++ }, 0},
		{"an attempt", func() { m.attempt++ }, 1},
		{"a send that is refused", func() { w.fault = errCable }, 1},
		{"the same again", func() {}, 0},
	} {
		before := told
		for range 100 {
			c.Event(func(time.Duration) []time.Duration { step.event(); step.event = func() {}; return []time.Duration{1} })
		}
		if told != before+step.times {
			t.Errorf("%s: told %d times", step.name, told-before)
		}
	}
}

// A machine that is due from the beginning ticks while its client is made.
func TestClientDueAtOnce(t *testing.T) {
	now := func() time.Duration { return 0 }
	for range 1000 {
		NewClient(&clock{}, now, func(bool) {}, func(*wire, time.Duration) error { return nil }).Close()
	}
}
