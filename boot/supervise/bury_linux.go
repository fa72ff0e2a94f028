package supervise

import (
	"context"
	"fmt"
	"time"

	"reveille/boot/proc"
	"reveille/boot/service"
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

// examine tells what a dead incarnation has left.
func (s *Supervisor) examine(ctx context.Context, ref service.Ref) {
	grace, cancel := context.WithTimeout(ctx, orphanGrace)
	s.Cgroups.AwaitEmpty(grace, ref)
	cancel()
	r := Remains{Events: s.Cgroups.Events(ref)}
	r.Left, r.Total = s.Cgroups.Processes(ref, shownLeft)
	_ = s.tell(ctx, func(now time.Duration) []Action { return s.machine.Examined(now, ref, r) }) // the next agent looks by itself
}

// bury removes what a dead incarnation left, and takes its bundle.
func (s *Supervisor) bury(ctx context.Context, d Death) {
	problem := s.buried(ctx, d)
	_ = s.tell(ctx, func(now time.Duration) []Action { return s.machine.Buried(now, d.Ref, problem) }) // the next agent does it again
}

func (s *Supervisor) buried(ctx context.Context, d Death) (problem string) {
	if err := s.Cgroups.Kill(d.Ref); err != nil {
		s.Log.Warn(fmt.Sprintf("kill the cgroup of %s: %v", d.Ref, err))
	}
	killed, cancel := context.WithTimeout(ctx, killBound)
	empty := s.Cgroups.AwaitEmpty(killed, d.Ref)
	cancel()
	if d.Bundle { // also if something cannot be killed
		s.bundle(ctx, d)
	}
	if !empty {
		names, total := s.Cgroups.Processes(d.Ref, shownLeft)
		return fmt.Sprintf("%s: cannot be killed: %s; %s", count(total, "process", "processes"), list(names), d.Why)
	}
	if err := s.Release(d.Ref); err != nil {
		return fmt.Sprintf("%v; %s", err, d.Why)
	}
	if err := s.Cgroups.Remove(d.Ref); err != nil {
		return fmt.Sprintf("%v; %s", err, d.Why)
	}
	return ""
}

// bundle records a death, once all that the service wrote is in the log.
func (s *Supervisor) bundle(ctx context.Context, d Death) {
	drained, cancel := context.WithTimeout(ctx, lastOutput)
	_ = s.Init.Drained(drained, proc.Target{Name: d.Service.Name, Incarnation: d.Incarnation}) // then it has what init has read
	cancel()
	if err := s.Bundle(ctx, d); err != nil {
		s.Log.Error(fmt.Sprintf("bundle of %s: %v; its log is all that is left", d.Ref, err))
	}
}
