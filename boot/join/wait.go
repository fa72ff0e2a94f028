package join

import (
	"fmt"
	"log/slog"
	"sync"
	"time"
)

const (
	// awaited is when a wait is named although nothing has failed yet.
	awaited = 10 * time.Second
	// repeat is the pace of the line afterwards. With the console's own
	// delays the last error is never older than 30 s, at some 10 B/s.
	repeat = 15 * time.Second
	// maxShown bounds the memory of causes; beyond it they only repeat.
	maxShown = 256
)

// wait tells people about one step that has not succeeded yet: a cause at once
// when it is new, and the state of things at a steady pace.
type wait struct {
	log   *slog.Logger
	since time.Time
	line  *time.Timer // when the line is due again; nil when it does not repeat

	mu      sync.Mutex
	ended   bool
	attempt int
	cause   string    // of the last failure; empty before the first
	next    time.Time // of the next attempt; zero while one is running
	shown   map[string]bool
}

func startWait(log *slog.Logger, repeats bool) *wait {
	w := &wait{log: log, since: time.Now(), shown: map[string]bool{}}
	w.mu.Lock()
	defer w.mu.Unlock()
	if repeats {
		w.line = time.AfterFunc(awaited, w.due)
	}
	return w
}

func (w *wait) stop() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ended = true
	if w.line != nil {
		w.line.Stop()
	}
}

func (w *wait) trying() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.attempt++
	w.next = time.Time{}
}

// failed books a failure that will be followed by another attempt after delay.
func (w *wait) failed(err error, delay time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cause = err.Error()
	w.next = time.Now().Add(delay)
	if w.news(err) {
		w.print()
	}
}

// due is called by the timer.
func (w *wait) due() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.ended {
		w.print()
	}
}

func (w *wait) print() {
	w.log.Warn(w.sentence(time.Now()))
	if w.line != nil {
		w.line.Reset(repeat)
	}
}

// news says whether any cause in err was not shown before.
func (w *wait) news(err error) bool {
	fresh := false
	for _, c := range causes(err) {
		if !w.shown[c] && len(w.shown) < maxShown {
			w.shown[c] = true
			fresh = true
		}
	}
	return fresh
}

func (w *wait) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.sentence(time.Now())
}

func (w *wait) sentence(now time.Time) string {
	cause, then := w.cause, "trying now"
	if cause == "" {
		cause = "no answer yet"
	}
	if !w.next.IsZero() {
		then = fmt.Sprintf("next try in %s", seconds(w.next.Sub(now)))
	}
	return fmt.Sprintf("waiting %s, attempt %d: %s; %s", seconds(now.Sub(w.since)), max(w.attempt, 1), cause, then)
}

// seconds rounds to what a person reads, and never to "0s".
func seconds(d time.Duration) time.Duration {
	return max(d.Round(time.Second), time.Second)
}
