package console

import (
	"slices"
	"time"
)

// giveUp ends the current item where it is. A crash goes back to its lane,
// to be shown from its first line, and so does what was not begun.
func (w *writer) giveUp() {
	it := w.cur
	if it == nil {
		return
	}
	w.cur = nil
	w.broken = w.broken || it.off > 0
	begun := it.at > 0 || it.off > 0
	w.mu.Lock()
	defer w.mu.Unlock()
	w.tally.writing -= it.shown.Total()
	if it.crash() || !begun && it.rec.times > 0 {
		w.lanes.putBack(it.rec)
		return
	}
	w.miss(it)
}

// miss counts an item that was taken from the lanes and is not shown.
func (w *writer) miss(it *item) {
	w.hidden.add(it.shown)
	w.hidden.add(it.tells)
	w.tally.lost.add(it.shown)
}

// flush throws the tty queue away.
func (w *writer) flush(now time.Time) {
	if err := w.port.Flush(); err != nil {
		return // nothing was thrown away; the bytes still land
	}
	w.loseFlight()
	w.pace.flushed(now)
}

// loseFlight takes back what was counted as shown and was still in the tty
// queue. Crashes get another turn.
func (w *writer) loseFlight() {
	w.broken = true
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range slices.Backward(w.flight) {
		w.tally.shown -= l.it.shown.Total()
		if l.it.crash() {
			w.lanes.putBack(l.it.rec)
			continue
		}
		w.miss(l.it)
	}
	w.flight = nil
}

// stats implements Engine.Stats.
func (w *writer) stats() Stats {
	w.mu.Lock()
	defer w.mu.Unlock()
	t := &w.tally
	s := Stats{Name: w.spec.Name, Written: t.written, Logged: w.lanes.logged.Total(), Shown: t.shown,
		Dropped: w.lanes.dropped, Waiting: w.lanes.pending + t.writing,
		Stalled: t.stalled, Rate: int(t.rate), Attached: t.attached}
	s.Dropped.add(t.lost)
	if since := w.calling.Load(); since != 0 {
		s.Stuck = w.engine.log.clock() - time.Duration(since)
	}
	return s
}

// busy tells whether a console that drains has something left to show.
func (w *writer) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.tally.stalled && (w.lanes.pending+w.tally.writing > 0 || w.tally.queued > 0)
}

// publish makes the goroutine's findings visible to Stats and the lanes.
func (w *writer) publish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lanes.pace(w.pace.rate)
	w.tally.stalled = !w.stallAt.IsZero()
	w.tally.rate = w.pace.rate
	w.tally.queued = w.pace.queued
	w.tally.attached = w.attached.state()
}
