package console

import "time"

// What an origin may say on a console, its warnings and its ordinary lines each
// for themselves: what needs a word for each of its things has something wrong
// with it, or a caller who should have counted them.
const (
	// burstLines holds what a node with a dozen bonds has to say of its network.
	burstLines = 128
	// steadyLines a second come on top: more than can be read, less than fills
	// a line at 9600 baud.
	steadyLines = 10
	// maxBudgets bounds them, as Limits.Origins does the log's: later origins
	// share one.
	maxBudgets = 2 * 64
)

// budgets bound what comes of a loop that logs a line for each of ten thousand
// things. They are as old as the records are.
type budgets map[speaker]budget

// speaker is an origin in one lane.
type speaker struct {
	origin string
	lane   int
}

// budget is how many lines were said, less what time has forgiven.
type budget struct {
	said float64
	at   time.Duration // uptime
}

// allow tells whether a record is within what its origin may say, and charges it.
// Errors, crashes and changes of stage always are; debug lines come only to who
// asked for them; and the kernel, whose traces are one line a record, bounds
// itself (include/linux/ratelimit.h).
func (bs budgets) allow(r Record) bool {
	if r.Level != Info && r.Level != Warn || r.Origin == KernelOrigin {
		return true
	}
	who := speaker{r.Origin, laneOf(r.Level)}
	if _, known := bs[who]; !known && len(bs) >= maxBudgets {
		who.origin = sharedOrigin
	}
	b := bs[who]
	if since := r.Uptime - b.at; since > 0 {
		b.said = max(b.said-since.Seconds()*steadyLines, 0)
		b.at = r.Uptime
	}
	ok := b.said+1 <= burstLines
	if ok {
		b.said++
	}
	bs[who] = b
	return ok
}
