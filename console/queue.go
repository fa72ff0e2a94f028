package console

import "slices"

// fifo is a first-in first-out queue that reuses its memory.
type fifo[T any] struct {
	items []T
	first int // index of the oldest
}

func (q *fifo[T]) len() int { return len(q.items) - q.first }

// all are the items, oldest first; valid until the next change.
func (q *fifo[T]) all() []T { return q.items[q.first:] }

func (q *fifo[T]) push(v T) { q.items = append(q.items, v) }

// pushFront makes v the oldest.
func (q *fifo[T]) pushFront(v T) {
	if q.first == 0 {
		q.items = slices.Insert(q.items, 0, v)
		return
	}
	q.first--
	q.items[q.first] = v
}

// pop removes the oldest. The caller knows that there is one.
func (q *fifo[T]) pop() T {
	v := q.items[q.first]
	var none T
	q.items[q.first] = none // let go of what it points to
	q.first++
	// Moving the rest down once half is free costs each item one copy.
	if q.first*2 >= len(q.items) {
		n := copy(q.items, q.items[q.first:])
		clear(q.items[n:])
		q.items, q.first = q.items[:n], 0
	}
	return v
}

// queue holds records in rising Seq.
type queue struct {
	fifo[Record]
	origin string
	bytes  int
}

func (q *queue) push(r Record) {
	q.fifo.push(r)
	q.bytes += r.size()
}

func (q *queue) pop() Record {
	r := q.fifo.pop()
	q.bytes -= r.size()
	return r
}

// from are the records with Seq >= seq.
func (q *queue) from(seq uint64) []Record {
	all := q.all()
	i, _ := slices.BinarySearchFunc(all, seq, func(r Record, s uint64) int {
		switch {
		case r.Seq < s:
			return -1
		case r.Seq > s:
			return 1
		}
		return 0
	})
	return all[i:]
}
