package console

import (
	"context"
	"slices"
	"sync"
)

// Filter chooses records. The zero value chooses all.
type Filter struct {
	Origins []string // any of these; empty means every origin
	Min     Level    // this level or more
}

// Match tells whether the filter lets a record through.
func (f Filter) Match(r Record) bool { return r.Level >= f.Min && f.wants(r.Origin) }

func (f Filter) wants(origin string) bool {
	return len(f.Origins) == 0 || slices.Contains(f.Origins, origin)
}

// maxWalk bounds the records looked at in one Read, and so the time that it
// holds the lock: some 100 us.
const maxWalk = 2048

// Read returns up to limit records with Seq >= from that the filter lets
// through. Lost counts the records of the range that are no longer kept: none
// if the wanted origins have lost none since from, else at most what they ever
// lost. Their levels are not known any more.
// Next is where to go on; Read has caught up when next is not above from.
func (l *Log) Read(from uint64, f Filter, limit int) (recs []Record, lost, next uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from = min(max(from, 1), l.next)
	recs, next = l.walk(from, f, limit)
	lost = (next - from) - l.kept(from, next)
	if len(f.Origins) > 0 {
		lost = min(lost, l.lostSince(from, f.Origins))
	}
	return recs, lost, next
}

// lostSince is what the origins lost in all, if any of it is of from or later.
func (l *Log) lostSince(from uint64, origins []string) (n uint64) {
	for _, o := range append([]string{sharedOrigin}, origins...) {
		if lost := l.lost[o]; lost.last >= from {
			n += lost.count
		}
	}
	return n
}

// walk merges the queues by Seq.
func (l *Log) walk(from uint64, f Filter, limit int) (recs []Record, next uint64) {
	next = from
	runs := l.runs(from, f)
	for range maxWalk {
		if len(recs) >= limit {
			return recs, next
		}
		i := oldest(runs)
		if i < 0 {
			return recs, l.next
		}
		r := runs[i][0]
		runs[i] = runs[i][1:]
		next = r.Seq + 1
		if f.Match(r) {
			recs = append(recs, r)
		}
	}
	return recs, next
}

// runs are the tails, from a sequence number on, of the queues that may hold
// what the filter wants.
func (l *Log) runs(from uint64, f Filter) [][]Record {
	runs := [][]Record{l.head.from(from)}
	for origin, q := range l.origins {
		if origin == sharedOrigin || f.wants(origin) {
			runs = append(runs, q.from(from))
		}
	}
	return runs
}

func oldest(runs [][]Record) int {
	best := -1
	for i, run := range runs {
		if len(run) > 0 && (best < 0 || run[0].Seq < runs[best][0].Seq) {
			best = i
		}
	}
	return best
}

// kept counts the records with from <= Seq < to.
func (l *Log) kept(from, to uint64) uint64 {
	n := len(l.head.from(from)) - len(l.head.from(to))
	for _, q := range l.origins {
		n += len(q.from(from)) - len(q.from(to))
	}
	return uint64(n)
}

// Next is the sequence number that the next record will get.
func (l *Log) Next() uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next
}

// Follower reads a log as it grows. A slow one is never waited for: what was
// evicted before it came by is counted. One goroutine uses a Follower.
type Follower struct {
	log    *Log
	filter Filter
	wake   chan struct{}

	// guarded by log.mu
	cursor uint64
	lost   uint64

	close sync.Once
}

// Follow starts at a sequence number (1: all that is kept; Log.Next: only
// what comes). Close must be called.
func (l *Log) Follow(from uint64, f Filter) *Follower {
	l.mu.Lock()
	defer l.mu.Unlock()
	fo := &Follower{log: l, filter: f, cursor: max(from, 1), wake: make(chan struct{}, 1)}
	l.followers = append(l.followers, fo)
	return fo
}

// Next waits for records and returns up to limit of them, with the number of
// matching records that were evicted, unseen, since the last call. The error
// is ctx's.
func (f *Follower) Next(ctx context.Context, limit int) (recs []Record, lost uint64, err error) {
	for {
		if recs, lost = f.take(limit); len(recs) > 0 || lost > 0 {
			return recs, lost, nil
		}
		select {
		case <-ctx.Done():
			return nil, 0, ctx.Err()
		case <-f.wake:
		}
	}
}

func (f *Follower) take(limit int) (recs []Record, lost uint64) {
	f.log.mu.Lock()
	defer f.log.mu.Unlock()
	for len(recs) == 0 && f.cursor < f.log.next {
		recs, f.cursor = f.log.walk(f.cursor, f.filter, limit)
	}
	if f.cursor < f.log.next {
		f.signal() // more is there: the next call must not wait
	}
	lost, f.lost = f.lost, 0
	return recs, lost
}

// Close ends the follower; it may be called more than once.
func (f *Follower) Close() {
	f.close.Do(func() {
		f.log.mu.Lock()
		defer f.log.mu.Unlock()
		f.log.followers = slices.DeleteFunc(f.log.followers, func(o *Follower) bool { return o == f })
	})
}

func (f *Follower) notify(r Record) {
	if f.filter.Match(r) {
		f.signal()
	}
}

func (f *Follower) signal() {
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// evicted is called under the log's lock for each record that goes.
func (f *Follower) evicted(r Record) {
	if r.Seq >= f.cursor && f.filter.Match(r) {
		f.lost++
		f.signal()
	}
}
