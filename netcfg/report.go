package netcfg

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// Status is the network as of the last observation.
func (r *Reconciler) Status() Status {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.status
}

// WaitFor returns nil as soon as ready says yes to a status, or ctx's error.
// Only Converge and Run make new statuses.
func (r *Reconciler) WaitFor(ctx context.Context, ready func(Status) bool) error {
	for {
		r.mu.Lock()
		status, changed := r.status, r.changed
		r.mu.Unlock()
		if ready(status) {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

func (r *Reconciler) publish(s Status, have State, converged bool, failure error) {
	s.Leases = r.leases.status(time.Now())
	r.findings.settle(s.Links, time.Now())
	s.Converged = converged
	if failure != nil {
		s.Failed = failure.Error()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status = s
	close(r.changed)
	r.changed = make(chan struct{})
}

// publishFailure adds to the last status that the work on it failed.
func (r *Reconciler) publishFailure(failure error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.status.Converged = false
	r.status.Failed = failure.Error()
	close(r.changed)
	r.changed = make(chan struct{})
}

// sayOps logs what was done. A node's first boot has about ten operations; of
// more, the rest is a count.
func (r *Reconciler) sayOps(ops []Op) {
	const most = 12
	// A lease that goes on is no news.
	ops = slices.DeleteFunc(slices.Clone(ops), func(op Op) bool {
		return op.Verb == OpReplaceAddress && op.Valid != 0 && op.Valid != infinity
	})
	for i, op := range ops {
		if i == most {
			r.log.Info(fmt.Sprintf("and %d more operations", len(ops)-most))
			return
		}
		r.log.Info(op.String())
	}
}

// say logs each link's line when it is another than last time.
func (r *Reconciler) say() {
	r.turn.Lock()
	defer r.turn.Unlock()
	for _, l := range r.Status().Links {
		line, level := l.line()
		if line == "" || r.said[l.ID] == line {
			continue
		}
		r.said[l.ID] = line
		r.log.Log(context.Background(), level, line)
	}
	r.saySettings()
}

// saySettings logs what keeps kernel settings from holding when it changes: the
// first, and a count.
func (r *Reconciler) saySettings() {
	var first string
	more := 0
	for _, w := range r.Status().Waits {
		switch {
		case w.Link != settingsLink:
		case first == "":
			first = w.Reason
		default:
			more++
		}
	}
	switch {
	case first == r.said[settingsLink]:
		return
	case first == "":
		r.log.Info("all kernel settings hold")
	case more > 0:
		r.log.Warn(fmt.Sprintf("kernel setting %s (and %d more); looked at again each minute", first, more))
	default:
		r.log.Warn("kernel setting " + first + "; looked at again each minute")
	}
	r.said[settingsLink] = first
}
