package boot

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"reveille/boot/proc"
)

// Tracker knows where the boot is and what it waits for. The console, the
// heartbeat and the crash summary all tell what it says, so they cannot
// contradict each other.
type Tracker struct {
	mu      sync.Mutex
	order   []string
	states  map[string]*progress
	changed chan struct{} // closed and replaced at every change
}

type progress struct {
	phase   phase
	begun   time.Time
	ended   time.Time
	cause   string
	attempt int
	retryAt time.Time
	does    string        // what it is at while nothing is wrong
	lookup  func() string // what a running stage itself says it waits for
}

type phase int

const (
	notStarted phase = iota
	running
	held
	finished
)

// NewTracker tracks the given stages.
func NewTracker(stages []Stage) *Tracker {
	t := &Tracker{states: map[string]*progress{}, changed: make(chan struct{})}
	for _, s := range stages {
		t.order = append(t.order, s.Name)
		t.states[s.Name] = &progress{does: s.Does}
	}
	return t
}

// Now returns the stage the boot is at, the first in the table that is not
// done, and what is wrong there or awaited, empty when nothing is.
func (t *Tracker) Now() (stage, reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	last := t.order[len(t.order)-1]
	for _, name := range t.order {
		if p := t.states[name]; p.phase != finished {
			return name, p.reason()
		}
	}
	if lookup := t.states[last].lookup; lookup != nil {
		return last, lookup()
	}
	return last, ""
}

// Changed returns a channel that is closed at the next change of Now.
func (t *Tracker) Changed() <-chan struct{} {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changed
}

// Explain has stage say by itself what it waits for, while it runs. The last
// stage goes on saying what is wrong when all are done.
func (t *Tracker) Explain(stage string, lookup func() string) {
	t.update(stage, func(p *progress) { p.lookup = lookup })
}

// Touch has those that follow Now look again: what it stands for has changed.
func (t *Tracker) Touch() {
	t.mu.Lock()
	defer t.mu.Unlock()
	close(t.changed)
	t.changed = make(chan struct{})
}

// Does says which step of its work a stage is at. It is no change of Now.
func (t *Tracker) Does(stage, what string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.states[stage].does = what
}

// Await returns when stage is done, or with ctx's error.
func (t *Tracker) Await(ctx context.Context, stage string) error {
	for {
		changed, done := t.isDone(stage)
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		}
	}
}

func (t *Tracker) isDone(stage string) (<-chan struct{}, bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.changed, t.states[stage].phase == finished
}

func (t *Tracker) begin(stage string) {
	t.update(stage, func(p *progress) { *p = progress{phase: running, begun: time.Now(), does: p.does, lookup: p.lookup} })
}

func (t *Tracker) done(stage string) {
	t.update(stage, func(p *progress) { p.phase, p.cause, p.ended = finished, "", time.Now() })
}

func (t *Tracker) hold(stage, cause string) {
	t.update(stage, func(p *progress) { p.phase, p.cause, p.lookup = held, cause, nil })
}

// fail notes a failed try and tells whether its cause is a new one.
func (t *Tracker) fail(stage, cause string, retryIn time.Duration) (distinct bool) {
	t.update(stage, func(p *progress) {
		distinct = p.cause != cause
		p.cause = cause
		p.attempt++
		p.retryAt = time.Now().Add(retryIn)
	})
	return distinct
}

func (t *Tracker) update(stage string, change func(*progress)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(t.states[stage])
	close(t.changed)
	t.changed = make(chan struct{})
}

// Stages returns all of them, in order.
func (t *Tracker) Stages() []proc.StageProgress {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []proc.StageProgress
	for _, name := range t.order {
		out = append(out, t.states[name].report(name))
	}
	return out
}

func (p *progress) report(name string) proc.StageProgress {
	s := proc.StageProgress{Name: name, For: time.Since(p.begun)}
	switch p.phase {
	case notStarted:
		return proc.StageProgress{Name: name}
	case held:
		s.State = proc.StageHeld
	case finished:
		s.State, s.For = proc.StageDone, p.ended.Sub(p.begun)
	default:
		s.State = proc.StageRunning
		if p.reason() != "" {
			s.State = proc.StageWaiting
		}
	}
	return s
}

// waiting words one console line on a stage that has not finished.
func (t *Tracker) waiting(stage string) (line string, isHeld bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.states[stage]
	age := time.Since(p.begun).Round(time.Second)
	if p.phase == held {
		return fmt.Sprintf("held for %s, until a reboot: %s", age, p.cause), true
	}
	reason := p.reason()
	if reason == "" {
		return fmt.Sprintf("waiting %s: still %s", age, p.does), false
	}
	if strings.HasPrefix(reason, "waiting ") {
		return reason, false // a client of the cluster counts its own tries
	}
	line = fmt.Sprintf("waiting %s", age)
	if p.attempt > 0 {
		line += fmt.Sprintf(", attempt %d", p.attempt)
	}
	line += ": " + reason
	if left := time.Until(p.retryAt); left > 0 {
		line += fmt.Sprintf("; next try in %s", shortDuration(left))
	}
	return line, false
}

func (p *progress) reason() string {
	if p.lookup != nil && p.phase == running {
		if text := p.lookup(); text != "" {
			return text
		}
	}
	return p.cause
}
