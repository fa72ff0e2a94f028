// Package supervise keeps a node's services as they are wished: it starts,
// restarts, holds and stops them, and buries what died.
//
// Machine decides and does nothing else: a method an event, time is an argument,
// what is to be done is returned. Supervisor does it over init's process table.
// init runs the processes, so they outlive the agent; what Machine must know
// again then lies in files below /run (Kept), written before the act.
package supervise

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"reveille/boot/proc"
	"reveille/boot/service"
)

// Wish is what is wanted of a service.
type Wish struct {
	service.Service
	Stopped bool   // it is defined, and is not to run
	Starts  uint64 // how often somebody asked for a new incarnation
}

// Machine is the state of all services. All times are since boot, so that they
// mean the same to the next agent and no clock that is set changes them.
type Machine struct {
	boot    string
	units   map[string]*unit
	order   []*unit           // the same, by name
	desired bool              // wishes are known: until then nothing is stopped for want of one
	taken   map[string]uint64 // incarnations that init knew at first, the last by name
	acts    []Action
}

// unit is one service that this boot has known.
type unit struct {
	Kept
	wish  Wish
	needs []string // that it waits for
	dirty bool     // Kept is not what lies below /run

	lostNeeds time.Duration // when it last ran without one of them; 0: never
	bundled   string        // why the last bundle was taken
	bundledAt time.Duration
}

// Kept is what of a service must outlive the agent.
type Kept struct {
	service.Ref
	Run       service.Service    // the definition of that incarnation
	State     State              //
	Reason    string             // of the state, one sentence
	Since     time.Duration      // the state is
	Until     time.Duration      // that something happens by itself; 0: nothing does
	Started   time.Duration      // the incarnation was
	Ready     bool               //
	Unknown   string             // what the monitor cannot tell, and why
	Instances []service.Instance // that it serves, or served at its end
	Told      service.Report     // by the monitor, the last; zero: nothing yet
	ToldAt    time.Duration      // since when with that verdict
	Starts    uint64             // Wish.Starts that was obeyed
	Spent     string             // why it is not to be started again; empty: it may
	Failed    bool               // Spent is a failure
	Fails     []time.Duration    // its own, in the window
	End       Ending             // of the incarnation that is ending
	Kills     int                // how often it was killed and was still there
}

// Ending is why an incarnation ends.
type Ending struct {
	Why     string     // one sentence, the chain of reasons
	Ordered bool       // nobody's failure
	Gone    bool       // by its monitor's verdict
	Exit    *proc.Exit // of its process; nil while it has none, or when it never ran
	At      time.Duration
	Bundle  bool     // is to be taken
	Remains *Remains // nil: nobody has looked yet
}

// good tells a good end: of the process itself, and with nothing left behind.
func (e Ending) good() bool {
	return e.Exit != nil && e.Exit.Clean() && !e.Gone && e.Remains.Total == 0
}

// Remains are what a dead incarnation left.
type Remains struct {
	Left   []string // processes, a few
	Total  int      // how many
	Events []string // of its cgroup
}

// NewMachine knows no service.
func NewMachine(boot string) *Machine {
	return &Machine{boot: boot, units: map[string]*unit{}, taken: map[string]uint64{}}
}

// Desired replaces all wishes.
func (m *Machine) Desired(now time.Duration, wishes []Wish) []Action {
	m.desired = true
	for _, u := range m.units {
		u.wish = Wish{}
	}
	for _, w := range wishes {
		u := m.units[w.Name]
		if u == nil {
			u = m.add(Kept{Ref: service.Ref{Boot: m.boot, Service: w.Name}, State: Stopped, Since: now})
		}
		u.wish = w
	}
	return m.settle(now)
}

// Started says that the program of an incarnation runs, or will as soon as its
// disk answers; since is when its process began, which is before the first line
// that it wrote.
func (m *Machine) Started(now time.Duration, ref service.Ref, since time.Duration) []Action {
	u := m.find(ref)
	switch {
	case u == nil:
	case u.State == Starting:
		m.enter(u, now, Running, "")
		u.Started, u.Ready = since, u.Run.Ready == nil
		m.watch(u, now)
		m.tellReady(u, now)
	case u.State == Stopping: // it was to stop before it ran
		m.do(u, Action{Verb: Signal, Signal: u.Run.Stop.Signal})
	}
	return m.settle(now)
}

// StartFailed says that an incarnation never became its program.
func (m *Machine) StartFailed(now time.Duration, ref service.Ref, why string) []Action {
	if u := m.find(ref); u != nil && (u.State == Starting || u.State == Stopping) {
		m.bury(u, now, nil, why)
	}
	return m.settle(now)
}

// Exited says how the process of an incarnation ended, and what else is known
// of it, e.g. that its memory limit was why.
func (m *Machine) Exited(now time.Duration, ref service.Ref, exit proc.Exit, note string) []Action {
	u := m.find(ref)
	if u != nil && (u.State == Starting || u.State == Running || u.State == Stopping) {
		m.bury(u, now, &exit, ended(exit, note))
	}
	return m.settle(now)
}

func ended(exit proc.Exit, note string) string {
	if note == "" {
		return exit.String()
	}
	return exit.String() + ": " + note
}

// Report is a monitor's news. That of an incarnation that is no longer the
// present one, or that is ending anyway, changes nothing.
func (m *Machine) Report(now time.Duration, r service.Report) []Action {
	u := m.find(r.Ref)
	if u == nil || u.State != Running {
		return m.settle(now)
	}
	u.dirty = true
	if u.Told.Verdict != r.Verdict {
		u.ToldAt = now
	}
	u.Instances, u.Told = r.Instances, r
	if r.Verdict == service.Gone {
		m.end(u, now, Ending{Why: r.Why, Gone: true})
		return m.settle(now)
	}
	ready := u.Ready
	u.Ready, u.Unknown = r.Ready || u.Run.Ready == nil, ""
	if r.Verdict == service.Unknown {
		u.Unknown = r.Why
	}
	if !ready {
		m.tellReady(u, now)
	}
	return m.settle(now)
}

// MonitorEnded says that nobody looks at an incarnation any more. Nobody may
// take it for healthy then.
func (m *Machine) MonitorEnded(now time.Duration, ref service.Ref, why string) []Action {
	if u := m.find(ref); u != nil && u.State == Running {
		m.end(u, now, Ending{Why: "its monitor ended: " + why + lost(u.Instances), Gone: true})
	}
	return m.settle(now)
}

// Examined says what an incarnation left. That is kept before any of it is
// removed: an agent that comes in between finds nothing any more.
func (m *Machine) Examined(now time.Duration, ref service.Ref, r Remains) []Action {
	u := m.find(ref)
	if u == nil || u.State != Cleaning || u.End.Remains != nil {
		return m.settle(now)
	}
	u.dirty = true
	u.End.Remains = &r
	u.End.Bundle = m.worthBundle(u, now)
	m.clean(u)
	return m.settle(now)
}

// Buried says what came of a Bury: nothing is left, or why some of it is still
// there.
func (m *Machine) Buried(now time.Duration, ref service.Ref, problem string) []Action {
	u := m.find(ref)
	if u == nil || u.State != Cleaning {
		return m.settle(now)
	}
	u.dirty = true
	u.End.Bundle = false // it is taken
	if problem != "" {
		if u.Reason != problem {
			u.Reason = problem
			m.say(u, Warn, problem+"; trying again every "+buryAgain.String())
		}
		u.Until = now + buryAgain
		return m.settle(now)
	}
	if left := u.End.Remains.Total; left > 0 {
		u.End.Why += fmt.Sprintf(", and left %s behind, which were killed", count(left, "process", "processes"))
	}
	m.rest(u, now)
	return m.settle(now)
}

// Tick does what is due.
func (m *Machine) Tick(now time.Duration) []Action {
	for _, u := range m.inOrder() {
		if u.Until == 0 || now < u.Until {
			continue
		}
		switch u.State {
		case Stopping:
			m.kill(u, now)
		case Cleaning:
			u.Until = 0
			m.clean(u)
		}
	}
	return m.settle(now)
}

// Next is when Tick has something to do, 0 for never.
func (m *Machine) Next() (at time.Duration) {
	for _, u := range m.units {
		if !m.desired && !u.State.busy() {
			continue // it starts nothing yet
		}
		if u.Until != 0 && (at == 0 || u.Until < at) {
			at = u.Until
		}
	}
	return at
}

func (m *Machine) find(ref service.Ref) *unit {
	u := m.units[ref.Service]
	if u == nil || u.Ref != ref {
		return nil
	}
	return u
}

func (m *Machine) inOrder() []*unit { return m.order }

// add makes a service known, for the rest of the boot: its incarnations go on
// counting whatever becomes of its definition.
func (m *Machine) add(k Kept) *unit {
	u := &unit{Kept: k}
	m.units[k.Service] = u
	at, _ := slices.BinarySearchFunc(m.order, k.Service, func(u *unit, name string) int { return strings.Compare(u.Service, name) })
	m.order = slices.Insert(m.order, at, u)
	return u
}

// Changed returns what has to be written below /run before the actions are
// done.
func (m *Machine) Changed() (all []Kept) {
	for _, u := range m.inOrder() {
		if u.dirty {
			u.dirty = false
			all = append(all, u.Kept)
		}
	}
	return all
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprint(n, " ", many)
}

func list(names []string) string { return strings.Join(names, ", ") }
