package supervise

import (
	"context"
	"fmt"
	"time"

	"reveille/boot/proc"
)

const (
	// What a process leaves behind mostly sees its end and ends too; what is
	// there after that was left over.
	orphanGrace = 300 * time.Millisecond
	// lastOutput bounds the wait for what init has not read of a dead service.
	lastOutput = time.Second
	// shownLeft bounds how many processes a bundle names.
	shownLeft = 10
)

// bury takes the bundle of a death, and then removes what it left: first the
// evidence, then the whole cgroup.
func (s *Supervisor) bury(ctx context.Context, d Death) {
	left, problem := s.buried(ctx, d)
	_ = s.tell(ctx, func(now time.Duration) []Action { return s.machine.Buried(now, d.Ref, left, problem) })
}

func (s *Supervisor) buried(ctx context.Context, d Death) (left int, problem string) {
	grace, cancel := context.WithTimeout(ctx, orphanGrace)
	s.Cgroups.AwaitEmpty(grace, d.Ref)
	cancel()
	var r Remains
	r.Left, r.Total = s.Cgroups.Processes(d.Ref, shownLeft)
	r.Events = s.Cgroups.Events(d.Ref)
	if err := s.Cgroups.Kill(d.Ref); err != nil {
		s.Log.Warn(fmt.Sprintf("kill the cgroup of %s: %v", d.Ref, err))
	}
	killed, cancel := context.WithTimeout(ctx, killBound)
	empty := s.Cgroups.AwaitEmpty(killed, d.Ref)
	cancel()
	// What looked like a good end is none if it left something behind.
	if d.Bundle || r.Total > 0 && !d.Ordered && !d.Again {
		s.bundle(ctx, d, r)
	}
	if !empty {
		names, total := s.Cgroups.Processes(d.Ref, shownLeft)
		return r.Total, fmt.Sprintf("%s: cannot be killed: %s; %s", count(total, "process", "processes"), list(names), d.Why)
	}
	if err := s.Release(d.Ref); err != nil {
		return r.Total, fmt.Sprintf("%v; %s", err, d.Why)
	}
	if err := s.Cgroups.Remove(d.Ref); err != nil {
		return r.Total, fmt.Sprintf("%v; %s", err, d.Why)
	}
	return r.Total, ""
}

// bundle records a death, once all that the service wrote is in the log.
func (s *Supervisor) bundle(ctx context.Context, d Death, r Remains) {
	drained, cancel := context.WithTimeout(ctx, lastOutput)
	_ = s.Init.Drained(drained, proc.Target{Name: d.Service.Name, Incarnation: d.Incarnation}) // then it has what init has read
	cancel()
	if err := s.Bundle(ctx, d, r); err != nil {
		s.Log.Error(fmt.Sprintf("bundle of %s: %v; its log is all that is left", d.Ref, err))
	}
}
