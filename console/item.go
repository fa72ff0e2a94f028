package console

import (
	"fmt"
	"strings"
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
	rec, ok := w.takeNext()
	if !ok {
		return nil
	}
	return &item{rec: rec, shown: rec.counts(), lines: layout(rec.Record, rec.times, maxTrace), began: now}
}

// takeNext takes a record from the lanes; without one, the next offer wakes
// the goroutine.
func (w *writer) takeNext() (waiting, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	rec, ok := w.lanes.next(w.pace.rate)
	w.idle = !ok
	w.tally.writing += rec.times
	return rec, ok
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

// boundTrace ends a crash that has had the console for traceTime: what a line
// carries in it is better met than foretold.
func (it *item) boundTrace(now time.Time) {
	if !it.crash() || it.off > 0 || it.used < minTraceBudget || it.at >= len(it.lines)-1 || now.Sub(it.began) < traceTime {
		return
	}
	rest := it.rec.Text
	for range it.at { // a line of the text is one here
		_, rest, _ = strings.Cut(rest, "\n")
	}
	it.lines = append(it.lines[:it.at], traceCut(int64(len(rest))+it.rec.Cut))
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

func (w *writer) note(format string, args ...any) {
	w.notes = append(w.notes, fmt.Sprintf(format, args...))
}
