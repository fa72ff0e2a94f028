package console

import (
	"sync"
	"time"
)

// Record is one line (or one multi-line entry) in the log.
type Record struct {
	Seq      uint64        // 1 is the first record of this boot
	Uptime   time.Duration // since the kernel started (CLOCK_BOOTTIME)
	Origin   string        // who said it: "netcfg", "kernel", "svc/etcd"
	Level    Level
	Text     string // valid UTF-8, harmless to a terminal; may hold \n and \t
	Cut      int64  // bytes of the original text that Text no longer holds
	RingOnly bool   // never offered to a console
}

// Entry is what a caller hands to Log.Add.
type Entry struct {
	At       time.Duration // uptime; 0 means now
	Origin   string
	Level    Level
	Text     string
	Cut      int64 // bytes that the caller already dropped from Text
	RingOnly bool
}

// Clock tells the uptime. BootTime is the real one.
type Clock func() time.Duration

// Limits bound the memory of a Log, in bytes except Origins.
type Limits struct {
	Head    int // the first records of the boot, never evicted; one origin gets a quarter at most
	Origin  int // what one origin may hold beyond the head; one record, half of it
	Total   int // all origins together; the largest gives way
	Origins int // distinct origins with a budget of their own; later ones share one
}

// DefaultLimits suits an init that aims at 12 MiB resident: a kernel log is
// some 60 KiB, an agent's boot some 20 KiB, a kept crash 128 KiB.
func DefaultLimits() Limits {
	return Limits{Head: 128 << 10, Origin: 256 << 10, Total: 2 << 20, Origins: 64}
}

// sink receives every record under the log's lock, in order; it must return
// at once and must not call the log.
type sink interface{ offer(Record) }

// Log is the ring: every record of this boot within Limits, in order.
type Log struct {
	clock  Clock
	limits Limits

	mu        sync.Mutex
	next      uint64 // Seq of the next record
	head      queue
	headShare map[string]int
	origins   map[string]*queue
	used      int // bytes in origins
	lost      map[string]loss
	followers []*Follower
	sinks     []sink
	tee       func(Record)
}

// loss is what of an origin is no longer kept.
type loss struct{ count, last uint64 } // records, Seq of the latest

// NewLog makes an empty log whose records are stamped by clock.
func NewLog(limits Limits, clock Clock) *Log {
	return &Log{
		clock: clock, limits: limits, next: 1,
		headShare: map[string]int{}, origins: map[string]*queue{}, lost: map[string]loss{},
	}
}

// Append adds one text and returns its sequence number. It never waits
// longer than other appends take.
func (l *Log) Append(origin string, level Level, text string) uint64 {
	return l.Add(Entry{Origin: origin, Level: level, Text: text})
}

// Add adds entries with nothing of anybody else in between, and returns the
// sequence number of the last.
func (l *Log) Add(entries ...Entry) uint64 {
	for i := range entries {
		l.tidy(&entries[i])
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	now := l.clock() // under the lock, so that uptimes rise with Seq
	for _, e := range entries {
		l.add(e, now)
	}
	return l.next - 1
}

// tidy makes an entry harmless and bounded. It needs no lock.
func (l *Log) tidy(e *Entry) {
	limit := l.limits.Origin / 2
	e.Level = min(e.Level, Crash)
	e.Origin = cleanOrigin(e.Origin)
	var cut int
	e.Text, cut = truncate(e.Text, limit)
	e.Cut += int64(cut)
	// Escapes are longer than what they stand for: bound the result as well.
	e.Text, cut = truncate(Clean(e.Text), limit)
	e.Cut += int64(cut)
}

func (l *Log) add(e Entry, now time.Duration) {
	if e.At == 0 {
		e.At = now
	}
	r := Record{Seq: l.next, Uptime: e.At, Origin: e.Origin, Level: e.Level,
		Text: e.Text, Cut: e.Cut, RingOnly: e.RingOnly}
	l.next++
	l.store(r)
	for _, f := range l.followers {
		f.notify(r)
	}
	if l.tee != nil {
		l.tee(r)
	}
	if !r.RingOnly {
		for _, s := range l.sinks {
			s.offer(r)
		}
	}
}

// Tee has f called with every record from now on, in order and under the log's
// lock: it must return at once and must not call the log.
func (l *Log) Tee(f func(Record)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tee = f
}

// store keeps the record in the head while that has room, else in its
// origin's queue, whose oldest records make room.
func (l *Log) store(r Record) {
	size := r.size()
	if l.head.bytes+size <= l.limits.Head && l.headShare[r.Origin]+size <= l.limits.Head/4 {
		l.headShare[r.Origin] += size
		l.head.push(r)
		return
	}
	q := l.queueOf(r.Origin)
	q.push(r)
	l.used += size
	for q.bytes > l.limits.Origin && q.len() > 1 {
		l.evict(q)
	}
	for l.used > l.limits.Total {
		l.evict(l.largest())
	}
}

// sharedOrigin holds the records of origins beyond Limits.Origins; no clean
// origin is empty, so the key is free.
const sharedOrigin = ""

func (l *Log) queueOf(origin string) *queue {
	if q := l.origins[origin]; q != nil {
		return q
	}
	if len(l.origins) >= l.limits.Origins {
		origin = sharedOrigin
		if q := l.origins[origin]; q != nil {
			return q
		}
	}
	q := &queue{origin: origin}
	l.origins[origin] = q
	return q
}

func (l *Log) largest() *queue {
	var big *queue
	for _, q := range l.origins {
		if big == nil || q.bytes > big.bytes {
			big = q
		}
	}
	return big
}

func (l *Log) evict(q *queue) {
	r := q.pop()
	l.used -= r.size()
	if q.len() == 0 {
		delete(l.origins, q.origin)
	}
	origin := r.Origin
	if _, known := l.lost[origin]; !known && len(l.lost) >= 2*l.limits.Origins {
		origin = sharedOrigin // origins come and go; this must not grow
	}
	l.lost[origin] = loss{l.lost[origin].count + 1, r.Seq}
	for _, f := range l.followers {
		f.evicted(r)
	}
}

// recordOverhead is the size of a Record beside its text, rounded up.
const recordOverhead = 96

func (r Record) size() int { return len(r.Text) + recordOverhead }
