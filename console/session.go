package console

import (
	"fmt"
	"time"
)

// reopenMin and reopenMax bound the pause before a failed device is opened
// again.
const (
	reopenMin = time.Second
	reopenMax = time.Minute
)

// run serves the console until the engine stops. A bug in here must not take
// PID 1 down, nor silence the console for good. A device that keeps failing
// in the same way is not news.
func (w *writer) run() {
	said := ""
	for pause := reopenMin; w.engine.ctx.Err() == nil; pause = min(pause*2, reopenMax) {
		began := time.Now()
		err := w.session()
		if w.engine.ctx.Err() != nil {
			return
		}
		if time.Since(began) > reopenMax {
			pause = reopenMin
		}
		if pause < reopenMax || err.Error() != said {
			said = err.Error()
			w.say(Warn, "%s: %v; next try in %v", w.spec.Name, err, pause)
		}
		w.rest(pause)
	}
}

// rest waits while the device is closed; the lanes keep bounding themselves.
func (w *writer) rest(pause time.Duration) {
	t := time.NewTimer(pause)
	defer t.Stop()
	for {
		select {
		case <-w.engine.ctx.Done():
			return
		case <-t.C:
			return
		case u := <-w.urgent:
			close(u.done)
		}
	}
}

// session opens the device and writes until it fails.
func (w *writer) session() (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("write console: bug: %v", p)
		}
		w.end()
	}()
	if err := w.start(); err != nil {
		return err
	}
	t := time.NewTimer(0)
	defer t.Stop()
	for {
		select {
		case <-w.engine.ctx.Done():
			return w.engine.ctx.Err()
		case u := <-w.urgent:
			w.writeLast(u)
		case <-w.wake:
		case <-t.C:
		}
		pause, err := w.step(time.Now())
		if err != nil {
			return err
		}
		t.Reset(pause)
	}
}

// start opens the device, however long that takes, without being deaf.
func (w *writer) start() error {
	type opened struct {
		port Port
		err  error
	}
	ch := make(chan opened, 1)
	go func() {
		p, err := w.open()
		ch <- opened{p, err}
	}()
	for {
		select {
		case <-w.engine.ctx.Done():
			// A port that still comes is closed at once: nobody will use it.
			go func() {
				if o := <-ch; o.err == nil {
					o.port.Close()
				}
			}()
			return w.engine.ctx.Err()
		case u := <-w.urgent:
			close(u.done)
		case o := <-ch:
			if o.err != nil {
				return o.err
			}
			w.begin(o.port, time.Now())
			return nil
		}
	}
}

func (w *writer) begin(p Port, now time.Time) {
	baud := w.spec.Baud
	if s, ok := p.(interface{ Baud() int }); ok {
		baud = s.Baud()
	}
	w.port = p
	w.pace = newPacer(w.spec.maxRate(baud), now)
	w.flight, w.sent, w.broken = nil, 0, true
	w.stallAt, w.flowing, w.kept = time.Time{}, now, now
	// Not yet known to drain: until it is, a kernel panic could hang on it.
	w.attached.want(p, false)
	if !w.away.IsZero() {
		w.stallAt = w.away
		w.resume(now)
	}
}

// end gives up what was not written and closes the device.
func (w *writer) end() {
	if w.port == nil {
		return
	}
	w.giveUp()
	w.port.Flush()
	w.loseFlight()
	w.port.Close()
	w.port, w.away = nil, time.Now()
	w.mu.Lock()
	w.tally.stalled, w.tally.queued = true, 0
	w.mu.Unlock()
}

// writeLast serves Engine.Last.
func (w *writer) writeLast(u lastLines) {
	defer close(u.done)
	now := time.Now()
	w.flush(now)
	w.giveUp()
	w.mu.Lock()
	w.lanes.forget(laneCrash)
	w.mu.Unlock()
	text := lineEnd
	for _, s := range u.lines {
		r := Record{Uptime: w.engine.log.clock(), Origin: "init", Level: Crash, Text: Clean(s)}
		for _, line := range layout(r, 1, minTraceBudget) {
			text += line + lineEnd
		}
	}
	// One attempt: the queue is empty now, so 4 KiB are taken at once or the
	// device is beyond help. The next step meets the error, if there is one.
	n, _ := w.write(now, text)
	w.broken = n < len(text)
}

// last hands lines to the goroutine; the channel closes when it wrote them,
// or could not.
func (w *writer) last(lines []string) chan struct{} {
	u := lastLines{lines: lines, done: make(chan struct{})}
	select {
	case w.urgent <- u:
	default: // an earlier Last still waits: the writer is stuck in a driver
		close(u.done)
	}
	return u.done
}
