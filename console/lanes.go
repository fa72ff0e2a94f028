package console

import "time"

// A lane is a rank of importance on a console. Warnings come after stage
// changes: "where is it" is asked before "what was odd on the way".
const (
	laneInfo = iota // with Debug
	laneWarn
	laneStage
	laneError
	laneCrash
	numLanes
)

func laneOf(l Level) int {
	switch l {
	case Crash:
		return laneCrash
	case Error:
		return laneError
	case Stage:
		return laneStage
	case Warn:
		return laneWarn
	default:
		return laneInfo
	}
}

const (
	// backlogTime bounds, with the rate, how much waits for a console: what
	// waits is shown at most this late. 8 s, a crash trace of 10 s and a full
	// tty queue stay under the 30 s that the newest line may be old.
	backlogTime = 8 * time.Second
	// minBacklog lets a few lines wait however slow the console is.
	minBacklog = 1200
	// maxBacklog bounds memory for fast consoles: a second at 64 kB/s.
	maxBacklog = 64 << 10
	// maxCrashBacklog holds the summaries and traces of three crashes.
	maxCrashBacklog = 3 * (maxTrace + 4<<10)
	// maxTrace bounds what one crash record takes on any console: 3 s at
	// 115200 baud, some 600 lines.
	maxTrace = 32 << 10
	// repeatReach is how many lines back a repeat is recognised, so that two
	// callers taking turns still collapse.
	repeatReach = 4
)

// waiting is a record that waits for its turn, and how often it came.
type waiting struct {
	Record
	times uint64
}

func (w *waiting) cost() int {
	if w.Level == Crash {
		return min(len(w.Text), maxTrace) + 64
	}
	return min(len(w.Text), excerptBytes) + 32
}

func (w *waiting) counts() (c Counts) {
	c[w.Level] = w.times
	return c
}

// lanes hold what waits for one console. It is not safe for concurrent use.
type lanes struct {
	lane    [numLanes]fifo[waiting]
	limit   int // bytes of all lanes but crash
	bytes   int // likewise
	crash   int // bytes of the crash lane
	logged  Counts
	dropped Counts
	pending uint64 // records that wait, repeats included
	budgets budgets
}

// offer takes a record; when there is no room, the oldest of the least
// important goes. What the operator asked for has no budget. It tells whether
// there is something new to show: not of what only counts.
func (ls *lanes) offer(r Record, asked bool) bool {
	ls.logged[r.Level]++
	lane := &ls.lane[laneOf(r.Level)]
	if again(lane.all(), r) {
		ls.pending++
		return true
	}
	if !asked && !ls.budgets.allow(r) {
		ls.dropped[r.Level]++
		return false
	}
	ls.pending++
	w := waiting{Record: r, times: 1}
	lane.push(w)
	ls.charge(&w, 1)
	ls.trim()
	return true
}

// again counts a record that is the same as one of the last few in its lane.
// A crash is never folded: each is an event.
func again(lane []waiting, r Record) bool {
	for i := len(lane) - 1; i >= 0 && i >= len(lane)-repeatReach; i-- {
		w := &lane[i]
		if w.Text == r.Text && w.Origin == r.Origin && w.Level == r.Level && r.Level != Crash {
			w.times++
			return true
		}
	}
	return false
}

// pace sets the bound from the console's rate in bytes per second.
func (ls *lanes) pace(rate float64) {
	ls.limit = min(max(int(rate*backlogTime.Seconds()), minBacklog), maxBacklog)
	ls.trim()
}

func (ls *lanes) trim() {
	for ls.crash > maxCrashBacklog {
		ls.drop(laneCrash)
	}
	for l := laneInfo; l < laneCrash; l++ {
		for ls.bytes > ls.limit && ls.lane[l].len() > 0 {
			ls.drop(l)
		}
	}
}

func (ls *lanes) drop(lane int) {
	w := ls.take(lane)
	ls.dropped.add(w.counts())
}

// take removes the oldest record of a lane. The caller knows that there is one.
func (ls *lanes) take(lane int) waiting {
	w := ls.lane[lane].pop()
	ls.pending -= w.times
	ls.charge(&w, -1)
	return w
}

// charge adds (1) or takes off (-1) the bytes of a record.
func (ls *lanes) charge(w *waiting, sign int) {
	if w.Level == Crash {
		ls.crash += sign * w.cost()
	} else {
		ls.bytes += sign * w.cost()
	}
}

// putBack returns a record that was taken and not shown: it is the next of
// its lane.
func (ls *lanes) putBack(w waiting) {
	ls.lane[laneOf(w.Level)].pushFront(w)
	ls.pending += w.times
	ls.charge(&w, 1)
}

// next takes the record to show now. While a second of the console's time
// holds all that waits, that is the oldest, and the log reads in order;
// beyond, it is the oldest of the most important.
func (ls *lanes) next(rate float64) (waiting, bool) {
	if ls.lane[laneCrash].len() > 0 {
		return ls.take(laneCrash), true
	}
	best := -1
	inOrder := float64(ls.bytes) <= rate
	for l := laneError; l >= laneInfo; l-- {
		if ls.lane[l].len() == 0 {
			continue
		}
		if best < 0 || inOrder && ls.lane[l].all()[0].Seq < ls.lane[best].all()[0].Seq {
			best = l
		}
	}
	if best < 0 {
		return waiting{}, false
	}
	return ls.take(best), true
}

// forget drops all that is less important than a lane: it is stale.
func (ls *lanes) forget(below int) {
	for l := range below {
		for ls.lane[l].len() > 0 {
			ls.drop(l)
		}
	}
}

// hasCrash tells whether a crash waits.
func (ls *lanes) hasCrash() bool { return ls.lane[laneCrash].len() > 0 }
