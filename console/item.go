package console

import (
	"fmt"
	"slices"
	"time"
)

// nextItem chooses what comes on the console: crashes, then what the writer
// itself has to say, then the lanes. Nil when nothing is due.
func (w *writer) nextItem(now time.Time) *item {
	w.mu.Lock()
	crash := w.lanes.hasCrash()
	w.collectDrops()
	w.mu.Unlock()
	if !crash {
		if it := w.ownWords(now); it != nil {
			return it
		}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	rec, ok := w.lanes.next(w.pace.rate)
	if !ok {
		// Nothing more waits, so the notice that waited for its turn is due
		// at the next look; until then an offer wakes us.
		w.idle = true
		return nil
	}
	w.tally.writing += rec.times
	return &item{rec: rec, shown: rec.counts(), lines: layout(rec.Record, rec.times, w.traceBudget())}
}

// collectDrops moves new drops to those that the console must be told of.
func (w *writer) collectDrops() {
	for l, n := range w.lanes.dropped {
		w.hidden[l] += n - w.told[l]
	}
	w.told = w.lanes.dropped
}

// ownWords is a note (back from a stall) or a due drop notice, with the
// current state where the console lacks it.
func (w *writer) ownWords(now time.Time) *item {
	it := &item{lines: w.notes}
	due := w.hidden.Total() > 0 && (len(w.notes) > 0 || now.Sub(w.noticed) >= noticeEvery)
	if due {
		it.lines = append(it.lines, dropNotice(w.hidden))
		it.tells = w.hidden
	}
	if len(w.notes) > 0 || due && w.hidden[Stage] > 0 {
		it.lines = append(it.lines, w.stateLines()...)
	}
	if len(it.lines) == 0 {
		return nil
	}
	if due {
		w.hidden, w.noticed = Counts{}, now
	}
	w.notes = nil
	return it
}

// maxStateLines bounds what a caller's State may put on a console: 8 lines
// are 4 s at 200 B/s.
const maxStateLines = 8

func (w *writer) stateLines() []string {
	var out []string
	at := w.engine.log.clock()
	state := w.engine.state()
	for _, s := range state[:min(len(state), maxStateLines)] {
		out = append(out, layout(Record{Uptime: at, Origin: "state", Level: Stage, Text: Clean(s)}, 1, 0)...)
	}
	return out
}

// traceBudget is how many bytes a crash may take here.
func (w *writer) traceBudget() int {
	return min(max(int(w.pace.rate*traceTime.Seconds()), minTraceBudget), maxTrace)
}

// yieldToCrash makes way for a crash that waits: an ordinary record that is
// half written is given up, and more than a second of queued output goes.
func (w *writer) yieldToCrash(now time.Time) {
	w.mu.Lock()
	crash := w.lanes.hasCrash()
	w.mu.Unlock()
	if !crash || w.cur != nil && w.cur.crash() {
		return
	}
	if float64(w.pace.queued) > w.pace.rate*flushOver.Seconds() {
		w.flush(now)
	}
	w.giveUp()
}

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
		s.Stuck = time.Since(time.Unix(0, since))
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

func (w *writer) note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}
