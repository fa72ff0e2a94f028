package console

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Opener opens a console's device. It may block: it runs in a goroutine of
// its own, and a Port that comes late is used.
type Opener func() (Port, error)

// Options of an Engine.
type Options struct {
	// State returns what is true now, a few short lines such as the stage and
	// what is awaited. They are shown when a console comes back from a stall
	// or had to drop stage changes. It is called from writer goroutines and
	// must not block. May be nil.
	State func() []string
	// Threshold is where ShowFrom begins. The zero value shows everything,
	// debug included.
	Threshold Level
}

// Engine paces the records of a Log onto consoles.
type Engine struct {
	log   *Log
	opts  Options
	ctx   context.Context
	stop  context.CancelFunc
	group sync.WaitGroup

	mu         sync.Mutex                       // serialises the writers of the two below
	thresholds atomic.Pointer[map[string]Level] // by origin; replaced whole
	writers    atomic.Pointer[[]*writer]        // replaced whole
	asked      atomic.Pointer[Shows]            // what the operator wants to see; goes before thresholds
	least      atomic.Uint32                    // the Level of origins without a threshold
}

// NewEngine makes an engine without consoles on a log.
func NewEngine(log *Log, opts Options) *Engine {
	e := &Engine{log: log, opts: opts}
	e.ctx, e.stop = context.WithCancel(context.Background())
	e.ShowFrom(opts.Threshold)
	e.Show(nil)
	e.thresholds.Store(&map[string]Level{})
	e.writers.Store(&[]*writer{})
	log.mu.Lock()
	defer log.mu.Unlock()
	log.sinks = append(log.sinks, e)
	return e
}

// ShowFrom sets the least level that reaches consoles of origins that have
// none of their own (SetThreshold).
func (e *Engine) ShowFrom(least Level) { e.least.Store(uint32(least)) }

// Show sets what the operator asked for; it goes before every threshold.
func (e *Engine) Show(s Shows) { e.asked.Store(&s) }

// SetThreshold sets the least level of an origin that reaches consoles;
// Never keeps it in the ring alone. Records that already wait are not recalled.
func (e *Engine) SetThreshold(origin string, least Level) {
	e.mu.Lock()
	defer e.mu.Unlock()
	m := maps.Clone(*e.thresholds.Load())
	m[cleanOrigin(origin)] = least
	e.thresholds.Store(&m)
}

// maxCatchUp is how many earlier records a new console is offered: its lanes
// hold no more than some hundred lines anyway.
const maxCatchUp = 1024

// Add starts a console: it is opened, and shows what the log holds (as far
// as that fits its pace) and what comes.
func (e *Engine) Add(spec Spec, open Opener) {
	w := newWriter(e, spec, open)
	e.log.mu.Lock()
	defer e.log.mu.Unlock()
	from := uint64(1)
	if e.log.next > maxCatchUp {
		from = e.log.next - maxCatchUp
	}
	recs, _ := e.log.walk(from, Filter{}, maxCatchUp)
	for _, r := range recs {
		if shown, asked := e.shows(r); shown && !r.RingOnly {
			w.offer(r, asked)
		}
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	list := append(slices.Clone(*e.writers.Load()), w)
	e.writers.Store(&list)
	e.group.Go(w.run)
}

// offer implements sink.
func (e *Engine) offer(r Record) {
	shown, asked := e.shows(r)
	if !shown {
		return
	}
	for _, w := range *e.writers.Load() {
		w.offer(r, asked)
	}
}

// shows tells whether a record belongs on consoles, and whether the operator
// named its origin.
func (e *Engine) shows(r Record) (shown, asked bool) {
	least, asked := e.asked.Load().Of(r.Origin)
	if asked {
		return r.Level >= least, true
	}
	least, ok := (*e.thresholds.Load())[r.Origin]
	if !ok {
		least = Level(e.least.Load())
	}
	return r.Level >= least, false
}

// state asks the caller what is true now. A bug in there must not cost the
// consoles, which would ask again and again.
func (e *Engine) state() (lines []string) {
	defer func() {
		if p := recover(); p != nil {
			lines = []string{fmt.Sprintf("unknown: bug: %v", p)}
		}
	}()
	if e.opts.State == nil {
		return nil
	}
	return e.opts.State()
}

// Stats is what a console did so far. A record counts as one line, however
// many it takes on the console; Shown + Dropped.Total() + Waiting = Logged.
type Stats struct {
	Name     string
	Written  uint64        // bytes accepted by the device
	Logged   uint64        // records meant for this console
	Shown    uint64        // records written whole
	Dropped  Counts        // records not shown, by level
	Waiting  uint64        // records that wait or are being written
	Stalled  bool          // takes nothing at present, or is not open
	Rate     int           // bytes per second that it is believed to drain
	Attached bool          // the kernel may print to it by itself (a panic would)
	Stuck    time.Duration // how long the writer has been inside one device call
}

// Stats returns one entry per console, in the order of Add.
func (e *Engine) Stats() []Stats {
	list := *e.writers.Load()
	out := make([]Stats, len(list))
	for i, w := range list {
		out[i] = w.stats()
	}
	return out
}

// Last puts lines on every console at once, ahead of everything: the reason
// of a reboot. What waits is dropped (and counted), except crashes. It
// returns when every console took the lines, or after limit, which a stuck
// driver uses up; a few milliseconds do.
func (e *Engine) Last(limit time.Duration, lines ...string) {
	ctx, cancel := context.WithTimeout(e.ctx, limit)
	defer cancel()
	var done []chan struct{}
	for _, w := range *e.writers.Load() {
		done = append(done, w.last(lines))
	}
	for _, ch := range done {
		select {
		case <-ch:
		case <-ctx.Done():
			return
		}
	}
}

// settlePoll is how often Settle looks: a line takes 8 ms at 115200 baud.
const settlePoll = 10 * time.Millisecond

// Settle waits until every console that is not stalled has shown all that
// waits and has sent it, or ctx ends. It tells whether they all did.
func (e *Engine) Settle(ctx context.Context) bool {
	tick := time.NewTicker(settlePoll)
	defer tick.Stop()
	for {
		if !slices.ContainsFunc(*e.writers.Load(), (*writer).busy) {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-tick.C:
		}
	}
}

// Close ends all writers: each throws away what its tty still holds (a close
// would wait for it) and closes. It returns when they are gone or ctx ends.
func (e *Engine) Close(ctx context.Context) {
	e.stop()
	done := make(chan struct{})
	go func() { e.group.Wait(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
	}
}
