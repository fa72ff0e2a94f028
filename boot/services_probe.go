package boot

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"reveille/boot/monitor"
	"reveille/boot/proc"
	"reveille/boot/service"
	"reveille/boot/supervise"
)

// notices is what a service says over sd_notify; init holds the socket.
func (n *Node) notices(ref service.Ref) func(context.Context, uint64) (monitor.Notice, error) {
	return func(ctx context.Context, after uint64) (monitor.Notice, error) {
		said, err := n.init.Notices(ctx, proc.NoticeQuery{Target: proc.Target{Name: ref.Service, Incarnation: ref.Incarnation}, After: after})
		return monitor.Notice(said), err
	}
}

// endProbe ends the program of an exec probe that an agent before this one was
// at: nobody else does, and init runs no second one beside it.
func (n *Node) endProbe(ctx context.Context, w supervise.Watched) {
	runs := func(p *service.Probe) bool { return p != nil && len(p.Exec) > 0 }
	if !runs(w.Service.Ready) && !runs(w.Service.Alive) {
		return
	}
	name := supervise.ProbeSpec(w, []string{""}).Name
	rows, err := n.init.List(ctx)
	if err != nil {
		return // init is gone, or this agent is
	}
	for _, p := range rows {
		if p.Name != name || !p.Running() {
			continue
		}
		target := proc.Target{Name: name, Incarnation: p.Incarnation, Signal: syscall.SIGKILL}
		_ = n.init.Signal(ctx, target) // it may have ended by now
		wait, cancel := context.WithTimeout(ctx, probeEnd)
		_, _ = n.init.Wait(wait, target) // the first look says what is wrong
		cancel()
	}
}

// probeEnd bounds the wait for what was killed: it may be in D state.
const probeEnd = time.Second

// probe runs the program of an exec probe beside an incarnation. It is init's
// child, as all programs are, and is killed when its time is over.
func (n *Node) probe(w supervise.Watched) func(context.Context, []string) (string, error) {
	return func(ctx context.Context, argv []string) (string, error) {
		spec := supervise.ProbeSpec(w, argv)
		spec.Incarnation = uint64(uptime()) // grows, also over the agent's death
		// Not cancelled: whether it came to be must be known, to be able to kill it.
		if _, err := n.init.Start(context.WithoutCancel(ctx), spec); err != nil {
			return "", fmt.Errorf("%w: %w", monitor.ErrUnasked, err)
		}
		target := proc.Target{Name: spec.Name, Incarnation: spec.Incarnation}
		p, err := n.init.Wait(ctx, target)
		if err != nil {
			target.Signal = syscall.SIGKILL
			_ = n.init.Signal(context.WithoutCancel(ctx), target) // it may have ended by now
			return "", err
		}
		if p.Exit.Clean() {
			return "", nil
		}
		return p.Exit.String(), nil
	}
}
