package supervise

import (
	"time"

	"reveille/boot/proc"
	"reveille/boot/service"
)

// Adopt takes over what an agent before this one knew and what init has of it.
// It is called once, before all else. A process is the incarnation that Kept
// says by its name and number; one that Kept does not know is somebody else's,
// and keeps its number. note tells what else is known of an end: see Exited.
func (m *Machine) Adopt(now time.Duration, kept []Kept, rows []proc.Process, note func(Kept, proc.Exit) string) []Action {
	found := map[service.Ref]proc.Process{}
	for _, p := range rows {
		found[service.Ref{Boot: m.boot, Service: p.Name, Incarnation: p.Incarnation, Generation: p.Generation}] = p
		m.taken[p.Name] = p.Incarnation
	}
	for _, k := range kept {
		if k.Boot != m.boot {
			continue // of another boot: nothing of it lives
		}
		u := m.add(k)
		if k.State.busy() {
			p, known := found[k.Ref]
			m.adopt(u, now, p, known, note)
		}
	}
	return m.settle(now)
}

// adopt goes on with one incarnation where the agent before left it.
func (m *Machine) adopt(u *unit, now time.Duration, p proc.Process, known bool, note func(Kept, proc.Exit) string) {
	switch {
	case u.State == Cleaning: // how far it came is not known: twice is better than never
		u.Until = 0
		m.clean(u)
	case !known:
		// init was not asked for it, or what it started never became the
		// program: nothing ran, so nothing is lost.
		u.End = Ending{Why: "its start was cut short", Ordered: true}
		m.enter(u, now, Cleaning, u.End.Why)
		m.clean(u)
	case !p.Running():
		m.bury(u, now, p.Exit, ended(*p.Exit, note(u.Kept, *p.Exit)))
	case u.State == Stopping && u.Kills == 0: // the deadline stays: it was asked then
		m.do(u, Action{Verb: Signal, Signal: u.Run.Stop.Signal})
	case u.State == Stopping:
		m.do(u, Action{Verb: Kill})
	default:
		if u.State == Starting {
			m.enter(u, now, Running, "")
			u.Started, u.Ready = p.Started, u.Run.Ready == nil
		}
		m.say(u, Info, "still runs, taking it over")
		m.watch(u, now)
	}
	u.dirty = true
}
