package console

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Recent is one of the newest records of a log, and how often the like of it
// came.
type Recent struct {
	Record
	Times uint64

	shape string
}

// line is the record as it stands on other consoles, without their columns:
// a screen has fewer.
func (r Recent) line() string {
	text := fmt.Sprintf("[%.3f] %s %c %s", r.Uptime.Seconds(), r.Origin, r.Level.Letter(), r.Text)
	if r.Times > 1 {
		text += fmt.Sprintf(" x%d", r.Times)
	}
	return text
}

func (r Recent) style() Style {
	if r.Level >= Error {
		return Alarm
	}
	return Warning
}

// Newest keeps the last few records of a log from a level on. One that differs
// from an earlier one in times and counts only, as what is said every ten
// seconds does, takes its place.
type Newest struct {
	least Level
	keep  int

	mu      sync.Mutex
	records []Recent
}

// Newest begins to keep the last records of that level or above, crashes not
// counted: they have a place of their own.
func (l *Log) Newest(least Level, keep int) *Newest {
	n := &Newest{least: least, keep: keep}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sinks = append(l.sinks, n)
	return n
}

// Records returns what is kept, oldest first. What the kernel had said before
// init read it is older than what init said first.
func (n *Newest) Records() []Recent {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := slices.Clone(n.records)
	slices.SortStableFunc(out, func(a, b Recent) int { return cmp.Compare(a.Uptime, b.Uptime) })
	return out
}

// maxRecentText bounds what is kept of a text, bytes: two rows of the widest
// screen (255 columns).
const maxRecentText = 512

// offer implements sink.
func (n *Newest) offer(r Record) {
	if r.Level < n.least || r.Level == Crash {
		return
	}
	r.Text, _ = truncate(r.Text, maxRecentText)
	r.Text = oneLine(r.Text)
	fresh := Recent{Record: r, Times: 1, shape: shape(r.Text)}
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, old := range n.records {
		if old.Origin == r.Origin && old.Level == r.Level && old.shape == fresh.shape {
			fresh.Times += old.Times
			n.records = slices.Delete(n.records, i, i+1)
			break
		}
	}
	n.records = append(n.records, fresh)
	if len(n.records) > n.keep {
		n.records = slices.Delete(n.records, 0, 1)
	}
}

// shape is a text without its numbers and durations; names with digits in them
// (eth0, an address) stay.
func shape(text string) string {
	words := strings.Fields(text)
	for i, w := range words {
		w = strings.TrimRight(w, ",;:.)")
		_, notNumber := strconv.ParseFloat(w, 64)
		_, notDuration := time.ParseDuration(w)
		if notNumber == nil || notDuration == nil {
			words[i] = "#"
		}
	}
	return strings.Join(words, " ")
}
