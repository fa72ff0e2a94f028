package console

import "slices"

// queue is a first-in first-out run of records in rising Seq.
type queue struct {
	origin string
	items  []Record
	first  int // index of the oldest
	bytes  int
}

func (q *queue) len() int { return len(q.items) - q.first }

func (q *queue) push(r Record) {
	q.items = append(q.items, r)
	q.bytes += r.size()
}

// pop removes the oldest. The caller knows that there is one.
func (q *queue) pop() Record {
	r := q.items[q.first]
	q.items[q.first] = Record{}
	q.first++
	q.bytes -= r.size()
	// Moving the rest down once half is free costs each record one copy.
	if q.first*2 >= len(q.items) {
		n := copy(q.items, q.items[q.first:])
		clear(q.items[n:])
		q.items, q.first = q.items[:n], 0
	}
	return r
}

// index is the position of the oldest record with Seq >= seq.
func (q *queue) index(seq uint64) int {
	i, _ := slices.BinarySearchFunc(q.items[q.first:], seq, func(r Record, s uint64) int {
		switch {
		case r.Seq < s:
			return -1
		case r.Seq > s:
			return 1
		}
		return 0
	})
	return q.first + i
}
