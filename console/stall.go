package console

import (
	"sync"
	"time"
)

// stall marks the console as taking nothing, and takes it from the kernel,
// which would wait for it 10 ms a character.
func (w *writer) stall(now time.Time) {
	w.stallAt = now
	w.attached.want(w.port, false)
	w.say(Warn, "%s: stalled, %d bytes wait and none went for %v; looking every %v",
		w.spec.Name, w.pace.queued, stallAfter, probeEvery)
}

// probe looks whether a stalled console takes output again.
func (w *writer) probe(now time.Time, drained bool) (time.Duration, error) {
	if !drained && w.pace.queued == 0 {
		// Nothing queued could drain, so something must be offered. A line
		// end does no harm, and closes a line that was cut.
		n, err := w.write(now, lineEnd)
		if err != nil {
			return 0, err
		}
		drained = n > 0
	}
	if !drained {
		if k, ok := w.port.(Kicker); ok {
			_ = k.Kick() // a device that is going: the next write meets that
		}
		return probeEvery, nil
	}
	w.resume(now)
	return 0, nil
}

// resume drops what became stale and shows what is true now.
func (w *writer) resume(now time.Time) {
	age := now.Sub(w.stallAt).Round(time.Second)
	w.flush(now)
	w.giveUp()
	w.mu.Lock()
	w.lanes.forget(laneError)
	w.mu.Unlock()
	w.stallAt, w.flowing = time.Time{}, now
	w.pace.restart()
	w.note("-- %s took nothing for %v --", w.spec.Name, age)
	w.say(Info, "%s: takes output again after %v", w.spec.Name, age)
}

// reattach gives the console back to the kernel once it is known to drain,
// so that a kernel panic can be read on it.
func (w *writer) reattach(now time.Time) {
	if w.pace.drained > 0 && now.Sub(w.flowing) >= attachAfter {
		w.attached.want(w.port, true)
	}
}

// keep restores terminal settings that somebody changed.
func (w *writer) keep(now time.Time) {
	k, ok := w.port.(Keeper)
	if !ok || now.Sub(w.kept) < keepEvery {
		return
	}
	w.kept = now
	// An error means that the device is going: the next write meets it.
	if changed, err := k.Keep(); err == nil && changed {
		w.say(Warn, "%s: terminal settings were changed by another process; restored", w.spec.Name)
	}
}

// attacher asks the kernel to use or leave a console, one request at a time
// and never in the writer's goroutine: the kernel takes its console lock for
// it, which can be starved for hours while printk is busy.
type attacher struct {
	mu     sync.Mutex
	wanted bool
	port   Port
	busy   bool
	is     bool
}

func (a *attacher) want(p Port, on bool) {
	if _, ok := p.(Attacher); !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.port == p && a.wanted == on {
		return
	}
	a.port, a.wanted = p, on
	if !a.busy {
		a.busy = true
		go a.work()
	}
}

func (a *attacher) work() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for {
		p, on := a.port, a.wanted
		a.mu.Unlock()
		err := p.(Attacher).Attach(on)
		a.mu.Lock()
		if err == nil {
			a.is = on
		}
		if a.port == p && a.wanted == on {
			a.busy = false
			return
		}
	}
}

func (a *attacher) state() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.is
}
