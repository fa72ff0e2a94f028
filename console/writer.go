package console

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

const (
	// probeEvery is how often a stalled console is looked at: soon enough for
	// a person who plugged a cable in, cheap enough for ever.
	probeEvery = time.Second
	// noticeEvery bounds how much of a slow console drop notices take: 70
	// bytes in 5 s are 7 % at 200 B/s.
	noticeEvery = 5 * time.Second
	// traceTime bounds how long a crash trace keeps a console from others.
	traceTime = 10 * time.Second
	// minTraceBudget holds a whole summary, on any console: so much is shown
	// however long it takes.
	minTraceBudget = 2048 + 256
	// flushOver is how much queued output a crash does not wait for.
	flushOver = time.Second
	// keepEvery is how often changed terminal settings are restored.
	keepEvery = 5 * time.Second
	// attachAfter is how long a console must have drained before the kernel
	// may print to it again.
	attachAfter = 5 * time.Second
)

// writer paces one console. The lanes are shared with offer; all else
// belongs to the goroutine of run.
type writer struct {
	engine *Engine
	spec   Spec
	open   Opener
	wake   chan struct{}
	urgent chan lastLines

	mu    sync.Mutex
	lanes lanes
	tally tally
	idle  bool // the goroutine waits for the first offer

	calling atomic.Int64 // uptime when the present device call began, in ns, or 0

	port     Port
	pace     pacer
	cur      *item
	flight   []landing // written, not yet seen to leave the tty queue
	sent     int       // bytes written since open; landing.end counts these
	broken   bool      // the last line on the console may lack its end
	notes    []string  // what to say before anything ordinary
	hidden   Counts    // dropped and not yet told
	told     Counts    // part of lanes.dropped that went to hidden
	noticed  time.Time
	stallAt  time.Time // zero: not stalled
	away     time.Time // when the device failed; zero: it never did
	flowing  time.Time // since when it drains
	kept     time.Time
	attached attacher
}

// tally is what Stats reports beside the lanes.
type tally struct {
	written  uint64
	shown    uint64
	lost     Counts // records cut by a flush or given up half written
	writing  uint64 // records taken from the lanes and not yet whole
	stalled  bool
	rate     float64
	queued   int
	attached bool
}

// lineEnd is ours to write whole: the terminal's output processing is off.
const lineEnd = "\r\n"

// item is what is being written: a record, or something the writer says.
type item struct {
	rec   waiting
	lines []string
	at    int // line
	off   int // bytes of that line already accepted
	used  int // bytes of the lines before it
	began time.Time
	shown Counts
	tells Counts // drop counts that it reports
}

func (it *item) crash() bool { return it.shown[Crash] > 0 }

// landing is where an item can be read whole in the byte stream: before its
// line end, which a flush may take and the next line then makes good.
type landing struct {
	end int
	it  *item
}

type lastLines struct {
	lines []string
	done  chan struct{}
}

func newWriter(e *Engine, spec Spec, open Opener) *writer {
	w := &writer{engine: e, spec: spec, open: open,
		wake: make(chan struct{}, 1), urgent: make(chan lastLines, 1)}
	w.lanes.budgets = budgets{}
	w.lanes.pace(spec.maxRate(spec.Baud))
	w.tally.stalled = true // until it is open
	return w
}

// offer takes a record from the log. It wakes the goroutine only if that has
// nothing to do or the record cannot wait: under a flood the pace decides.
func (w *writer) offer(r Record, asked bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.lanes.offer(r, asked) {
		return // told of in time: see restful
	}
	if w.idle || r.Level == Crash {
		select {
		case w.wake <- struct{}{}:
		default:
		}
	}
	w.idle = false
}

// step does what is due now and returns when to look again.
func (w *writer) step(now time.Time) (time.Duration, error) {
	defer w.publish()
	queued, err := w.queued()
	if err != nil {
		return 0, fmt.Errorf("read queue length: %w", err)
	}
	before := w.pace.drained
	w.pace.observe(now, queued)
	w.land(queued)
	w.keep(now)
	if !w.stallAt.IsZero() {
		return w.probe(now, w.pace.drained > before)
	}
	if w.pace.stalled(now) {
		w.stall(now)
		return probeEvery, nil
	}
	w.reattach(now)
	w.yieldToCrash(now)
	return w.fill(now)
}

// fill writes lines while the pace admits them.
func (w *writer) fill(now time.Time) (time.Duration, error) {
	for {
		line, ok := w.line(now)
		if !ok {
			w.pace.wanting = false
			return w.restful(), nil
		}
		if w.cur.off == 0 && !w.pace.admits(len(line)) {
			return w.pace.wait(len(line)), nil
		}
		n, err := w.write(now, line[w.cur.off:])
		if err != nil {
			return 0, fmt.Errorf("write: %w", err)
		}
		if w.cur.off += n; w.cur.off < len(line) {
			return minPoll, nil
		}
		w.advance()
	}
}

// restful is how long to sleep with nothing to write: until an offer, but
// with an eye on a queue that still drains, on what was only counted and on the
// settings.
func (w *writer) restful() time.Duration {
	if w.pace.queued > 0 {
		return maxPoll
	}
	if w.hidden.Total() > 0 {
		return noticeEvery / 5
	}
	return keepEvery
}

// line is the line to write now, with its end.
func (w *writer) line(now time.Time) (string, bool) {
	if w.cur == nil {
		if w.cur = w.nextItem(now); w.cur == nil {
			return "", false
		}
	}
	w.cur.boundTrace(now)
	line := w.cur.lines[w.cur.at] + lineEnd
	if w.broken && w.cur.at == 0 {
		line = lineEnd + line
	}
	return line, true
}

// advance goes to the next line, and lets a finished item fly.
func (w *writer) advance() {
	it := w.cur
	it.used += it.off
	it.off = 0
	if it.at++; it.at < len(it.lines) {
		return
	}
	w.broken = false
	w.flight = append(w.flight, landing{end: w.sent - len(lineEnd), it: it})
	w.cur = nil
	w.mu.Lock()
	w.tally.shown += it.shown.Total()
	w.tally.writing -= it.shown.Total()
	w.mu.Unlock()
}

// land forgets the items whose last byte left the tty queue.
func (w *writer) land(queued int) {
	gone := w.sent - queued
	for len(w.flight) > 0 && w.flight[0].end <= gone {
		w.flight = w.flight[1:]
	}
}

func (w *writer) queued() (int, error) {
	defer w.call()()
	return w.port.Queued()
}

func (w *writer) write(now time.Time, line string) (int, error) {
	defer w.call()()
	n, err := w.port.Write([]byte(line))
	n = max(n, 0)
	w.pace.refused = n < len(line)
	w.pace.wrote(now, n)
	w.sent += n
	w.mu.Lock()
	w.tally.written += uint64(n)
	w.tally.queued = w.pace.queued
	w.mu.Unlock()
	if errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR) {
		err = nil
	}
	return n, err
}

// call marks a device call, so that Stats can tell a driver that blocks.
func (w *writer) call() func() {
	w.calling.Store(int64(w.engine.log.clock()))
	return func() { w.calling.Store(0) }
}

// say puts a line about this console into the log, for the other consoles.
func (w *writer) say(level Level, format string, args ...any) {
	w.engine.log.Append("console", level, fmt.Sprintf(format, args...))
}
