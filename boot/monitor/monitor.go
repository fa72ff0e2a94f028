// Package monitor looks at one running incarnation of a service and says
// whether it is ready, alive, gone, or in doubt.
//
//	err := monitor.Watch(ctx, monitor.Target{Service: s, Ref: ref, Witness: w}, func(r service.Report) { .. })
//
// A monitor ends with the verdict gone or with its context, and with nothing
// else: what it cannot understand is a doubt, which it looks into again, less
// and less often, until the deadline. The process alone is no proof of life: a
// service that was started anew behind the monitor's back looks healthy and has
// lost all it had, which its Identity probe finds out.
package monitor

import (
	"context"
	"slices"
	"time"

	"reveille/boot/service"
)

// Target is an incarnation and the means to look at it.
type Target struct {
	Service service.Service
	Ref     service.Ref
	PID     int           // of its first process; for its root and network
	Age     time.Duration // since its start; more than a moment when it is adopted
	// Before is what the monitor before this one, of an agent that died, had
	// told; zero when there was none. What the service had then, it must have
	// still.
	Before  service.Report
	Doubt   time.Duration // how long Before has been unknown
	Witness Witness
	Exec    func(ctx context.Context, argv []string) (status string, err error)
	Notices func(ctx context.Context, after uint64) (Notice, error)
}

// Witness is asked about the processes of a service whenever the service itself
// gives no clear answer. It must not block.
type Witness interface{ See() Sight }

// Sight is what a Witness sees.
type Sight struct {
	Ended bool   // no process is left, for certain
	Text  string // what there is, in a few words: "pid 312 is stopped"
}

// Notice is what a service has said over sd_notify(3) so far.
type Notice struct {
	Seq     uint64 // of the last message; grows
	Ready   bool   // READY=1
	Beats   uint64 // WATCHDOG=1 so often
	Trigger bool   // WATCHDOG=trigger: it gives itself up
}

// Watch monitors t until it is gone or ctx ends, and tells what changes. Should
// it ever end in another way, it tells that the service is gone: nobody would
// look at it any more, and no data is not healthy.
func Watch(ctx context.Context, t Target, tell func(service.Report)) error {
	m := newMonitor(t, tell)
	defer func() {
		if ctx.Err() == nil && m.told.Verdict != service.Gone {
			m.report(opinion{verdict: service.Gone, why: "its monitor ended without a verdict"})
		}
	}()
	return m.run(ctx)
}

type monitor struct {
	target Target
	tell   func(service.Report)
	told   service.Report
	ready  bool
	judge  *judge
	hints  chan struct{} // look now
	heard  heard
	began  time.Time
	asks   func(context.Context, service.Probe) answer // ask, but in tests
}

func newMonitor(t Target, tell func(service.Report)) *monitor {
	m := &monitor{target: t, tell: tell, ready: t.Before.Ready || t.Service.Ready == nil, hints: make(chan struct{}, 1), began: time.Now()}
	m.judge, m.asks = newJudge(t), m.ask
	return m
}

// run looks until there is a verdict. Without a probe the process speaks for
// itself, and init hears it.
func (m *monitor) run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	m.follow(ctx)
	for {
		probe := m.probe()
		if probe == nil {
			m.report(opinion{verdict: service.Alive})
			<-ctx.Done()
			return ctx.Err()
		}
		o := m.look(ctx, *probe)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		m.report(o)
		if o.verdict == service.Gone {
			return nil
		}
		if err := m.pause(ctx, o.next); err != nil {
			return err
		}
	}
}

// probe is what is asked next; nil: nothing more.
func (m *monitor) probe() *service.Probe {
	if !m.ready {
		return m.target.Service.Ready
	}
	return m.target.Service.Alive
}

// look asks once and has the answer judged.
func (m *monitor) look(ctx context.Context, p service.Probe) opinion {
	a := m.asks(ctx, p)
	if !m.ready {
		o := m.judge.ready(m.target.Age+m.elapsed(), a, m.target.Witness.See)
		if m.ready = o.ready; m.ready {
			m.heard.began(time.Now()) // from here on it has to say that it lives
		}
		return o
	}
	return m.judge.alive(m.elapsed(), a, m.target.Witness.See)
}

func (m *monitor) elapsed() time.Duration { return time.Since(m.began) }

// report tells what has changed.
func (m *monitor) report(o opinion) {
	r := service.Report{Ref: m.target.Ref, Verdict: o.verdict, Ready: m.ready, Answered: m.judge.answered, Why: o.why, Server: m.judge.server, Instances: m.judge.known}
	if same(r, m.told) {
		return
	}
	m.told = r
	r.Instances = slices.Clone(r.Instances)
	m.tell(r)
}

func same(a, b service.Report) bool {
	return a.Verdict == b.Verdict && a.Ready == b.Ready && a.Answered == b.Answered && a.Why == b.Why && a.Server == b.Server && slices.Equal(a.Instances, b.Instances)
}

// pause waits for the next look. A hint shortens it, but not below the least
// delay: whatever the service answers, it is not asked in a hot loop.
func (m *monitor) pause(ctx context.Context, d time.Duration) error {
	least, most := time.NewTimer(leastDelay), time.NewTimer(max(d, leastDelay))
	defer least.Stop()
	defer most.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-least.C:
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-most.C:
	case <-m.hints:
	}
	return nil
}

// hint has the next look taken at once.
func (m *monitor) hint() {
	select {
	case m.hints <- struct{}{}:
	default: // one is on its way
	}
}
