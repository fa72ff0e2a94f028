package proc

import (
	"cmp"
	"context"
	"slices"
)

// OpExits waits for processes to end.
const OpExits = "exits"

// ExitQuery asks for the exits after the one with this number; 0 is before all.
type ExitQuery struct {
	After uint64 `json:"after"`
}

// Exits are rows in the order in which they ended. One that ended and was
// started again since is left out: who starts it knows that it had ended.
type Exits struct {
	Rows []Process `json:"rows"`
	Last uint64    `json:"last"` // the After of the next query
}

// Exits returns the exits after a number, as soon as there are any. One call
// that waits serves for any number of processes.
func (c *Client) Exits(ctx context.Context, after uint64) (Exits, error) {
	return reply[Exits](ctx, c, OpExits, ExitQuery{after})
}

// Exits returns the exits after a number, as soon as there are any, or ctx's
// error.
func (t *Table) Exits(ctx context.Context, after uint64) (Exits, error) {
	for {
		found, more := t.exitsSince(after)
		if len(found.Rows) > 0 {
			return found, nil
		}
		select {
		case <-ctx.Done():
			return found, ctx.Err()
		case <-more:
		}
	}
}

func (t *Table) exitsSince(after uint64) (Exits, <-chan struct{}) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ended []*entry
	for _, e := range t.procs {
		if e.order > after {
			ended = append(ended, e)
		}
	}
	slices.SortFunc(ended, func(a, b *entry) int { return cmp.Compare(a.order, b.order) })
	found := Exits{Rows: []Process{}, Last: t.exits}
	for _, e := range ended {
		found.Rows = append(found.Rows, e.Process)
	}
	return found, t.ended
}

// Brief is a row without what only its start needs: a reply with a thousand
// rows must fit a frame.
func (p Process) Brief() Process {
	p.Argv, p.Env, p.Setup = nil, nil, nil
	return p
}

// OpDrained waits for the end of an output.
const OpDrained = "drained"

// Drained returns once all that an incarnation wrote is in the log.
func (c *Client) Drained(ctx context.Context, t Target) error {
	return c.c.call(ctx, OpDrained, t, &Nothing{})
}
