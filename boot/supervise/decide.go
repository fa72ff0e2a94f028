package supervise

import (
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"reveille/boot/proc"
	"reveille/boot/service"
)

// settle brings every service nearer to its wish, and returns all that is to be
// done. A service that becomes ready may be what another waits for, but that
// takes an event of its own, so one pass does.
func (m *Machine) settle(now time.Duration) []Action {
	if m.desired {
		for _, u := range m.inOrder() {
			if u.State == Starting || u.State == Running {
				m.review(u, now)
			}
		}
		for _, u := range m.inOrder() {
			m.noteNeeds(u, now)
			if !u.State.busy() {
				m.begin(u, now)
			}
		}
	}
	acts := m.acts
	m.acts = nil
	return acts
}

const byOperator = "it was stopped by an operator"

// review ends an incarnation that is not wished any more.
func (m *Machine) review(u *unit, now time.Duration) {
	why := ""
	switch {
	case u.wish.Name == "":
		why = "it is no longer defined"
	case u.wish.Stopped:
		why = byOperator
	case u.wish.Starts > u.Starts:
		why = "a new incarnation was asked for"
	case u.outdated() && u.Run.Restart != service.Never:
		why = "its definition changed"
	default:
		return
	}
	m.end(u, now, Ending{Why: why, Ordered: true})
}

// begin starts a service that is to run, unless something is in its way, and
// says what.
func (m *Machine) begin(u *unit, now time.Duration) {
	asked := u.wish.Starts > u.Starts
	changed := u.outdated() && u.Run.Restart != service.Never
	switch {
	case u.wish.Name == "":
		m.enter(u, now, Stopped, "it is no longer defined")
	case u.wish.Stopped:
		m.enter(u, now, Stopped, u.endedAs(byOperator))
	case u.Spent != "" && !asked && !changed:
		m.enter(u, now, u.final(), u.Spent)
	case now < u.Until && !asked && !changed && (u.State == Backoff || u.State == Held):
	case m.missing(u):
		m.enter(u, now, Waiting, m.waitsFor(u))
	default:
		m.start(u, now)
	}
}

// endedAs is an order to end, and how the incarnation obeyed it, if it was given
// to one.
func (u *unit) endedAs(order string) string {
	if u.End.Ordered && strings.HasPrefix(u.End.Why, order) {
		return u.End.Why
	}
	return order
}

// final is what a service is that is spent. One with a probe was to go on
// answering, so nobody may take its end for a success.
func (u *unit) final() State {
	switch {
	case u.Failed:
		return Failed
	case u.End.Ordered, u.Run.Ready != nil, u.Run.Alive != nil:
		return Stopped
	}
	return Done
}

func (m *Machine) start(u *unit, now time.Duration) {
	u.Incarnation = max(u.Incarnation, m.taken[u.Service]) + 1
	u.Generation = u.wish.Generation
	u.Run, u.Starts = u.wish.Service, u.wish.Starts
	u.Ready, u.Unknown, u.Instances, u.Told, u.Started = false, "", nil, service.Report{}, 0
	u.Spent, u.Failed, u.End, u.Kills, u.lostNeeds = "", false, Ending{}, 0, 0
	m.enter(u, now, Starting, "its program is being started")
	u.dirty = true
	m.do(u, Action{Verb: Start, Service: u.Run})
}

// missing finds what a service waits for.
func (m *Machine) missing(u *unit) bool {
	u.needs = nil
	for _, name := range u.wish.Needs {
		if !m.isReady(name) {
			u.needs = append(u.needs, name)
		}
	}
	return len(u.needs) > 0
}

func (m *Machine) isReady(name string) bool {
	n := m.units[name]
	return n != nil && n.State == Running && n.Ready
}

// shownNeeds bounds how many services a reason names.
const shownNeeds = 3

// few names some services, and counts the others.
func few(names []string) string {
	text := strings.Join(names[:min(len(names), shownNeeds)], ", ")
	if more := len(names) - shownNeeds; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

func (m *Machine) waitsFor(u *unit) string {
	var parts []string
	for _, name := range u.needs[:min(len(u.needs), shownNeeds)] {
		n := m.units[name]
		switch {
		case n == nil || n.wish.Name == "":
			parts = append(parts, name+" (not defined)")
		case n.tell() == "":
			parts = append(parts, fmt.Sprintf("%s (%s)", name, n.State))
		default:
			parts = append(parts, fmt.Sprintf("%s (%s: %s)", name, n.State, n.tell()))
		}
	}
	text := "needs " + strings.Join(parts, ", ")
	if more := len(u.needs) - len(parts); more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// noteNeeds remembers when a service last ran without what it needs: what it
// does then is not its own failure.
func (m *Machine) noteNeeds(u *unit, now time.Duration) {
	if u.State != Running && u.State != Starting {
		return
	}
	if slices.ContainsFunc(u.Run.Needs, func(name string) bool { return !m.isReady(name) }) {
		u.lostNeeds = now
	}
}

// end has an incarnation end: asked to, or, when it is gone, killed at once.
func (m *Machine) end(u *unit, now time.Duration, e Ending) {
	u.End, u.Kills = e, 0
	m.enter(u, now, Stopping, e.Why)
	m.do(u, Action{Verb: Unwatch})
	if e.Gone {
		m.say(u, Error, "gone: "+e.Why)
		m.kill(u, now)
		return
	}
	m.say(u, Info, "stopping: "+e.Why)
	u.Until = now + u.Run.Stop.Timeout
	m.do(u, Action{Verb: Signal, Signal: u.Run.Stop.Signal})
}

// kill kills the whole cgroup, again and again until it is dead: a process in D
// state dies when the kernel lets it.
func (m *Machine) kill(u *unit, now time.Duration) {
	u.dirty = true
	m.do(u, Action{Verb: Kill})
	switch u.Kills {
	case 0:
		u.Until = now + killBound
		if !u.End.Gone {
			m.say(u, Warn, fmt.Sprintf("did not end within %s of %s; killed", u.Run.Stop.Timeout, unix.SignalName(u.Run.Stop.Signal)))
		}
	case 1:
		u.Reason = fmt.Sprintf("cannot be killed: still there %s after SIGKILL; %s", killBound, u.End.Why)
		m.say(u, Error, fmt.Sprintf("%s; trying again every %s", u.Reason, killAgain))
		fallthrough
	default:
		u.Until = now + killAgain
	}
	u.Kills++
}

// bury takes note of an end and has the bundle taken and the remains removed.
func (m *Machine) bury(u *unit, now time.Duration, exit *proc.Exit, why string) {
	if u.State != Stopping {
		u.End = Ending{}
	} else if u.End.Gone {
		why = u.End.Why // that it was killed then is no news
	} else {
		if u.Kills > 0 && exit != nil && exit.Signal == int(syscall.SIGKILL) {
			why += fmt.Sprintf(", as it did not end within %s of %s", u.Run.Stop.Timeout, unix.SignalName(u.Run.Stop.Signal))
		}
		why = u.End.Why + "; " + why
	}
	u.End.Why, u.End.Exit, u.End.At = why, exit, now
	m.enter(u, now, Cleaning, why)
	u.dirty = true
	m.do(u, Action{Verb: Unwatch})
	m.clean(u)
}

// clean removes what a dead incarnation left, once that is known.
func (m *Machine) clean(u *unit) {
	if u.End.Remains == nil {
		m.do(u, Action{Verb: Examine})
		return
	}
	m.do(u, Action{Verb: Bury, Death: u.death()})
}

func (u *unit) death() Death {
	return Death{Ref: u.Ref, Ending: u.End, Service: u.Run, Started: u.Started, Instances: u.Instances}
}

// worthBundle: every end that nobody ordered, but one that repeats itself only
// once in a window, lest a service in a loop of failures fills the cluster.
func (m *Machine) worthBundle(u *unit, now time.Duration) bool {
	if u.End.Ordered || u.End.good() && len(u.Instances) == 0 {
		return false
	}
	if u.bundled == u.End.Why && now-u.bundledAt < window && u.Run.Restart != service.Never {
		return false
	}
	u.bundled, u.bundledAt = u.End.Why, now
	return true
}

// rest decides what becomes of a service whose last incarnation has left
// nothing.
func (m *Machine) rest(u *unit, now time.Duration) {
	clean := u.End.good()
	u.Ready, u.Unknown, u.Until = false, "", 0
	switch {
	case u.End.Ordered:
		m.enter(u, now, Stopped, u.End.Why)
		m.say(u, Info, "stopped: "+u.End.Why)
		if u.Run.Restart == service.Never && (u.Started != 0 || u.End.Exit != nil) {
			u.Spent = u.End.Why // its state is gone, whoever ended it
		}
	case u.Run.Restart == service.Never && !(clean && len(u.Instances) == 0):
		why := u.End.Why
		if !u.End.Gone { // whose reason names them
			why += lost(u.Instances)
		}
		m.spend(u, now, true, why)
		m.say(u, Error, "failed: "+u.Spent+"; it is not started again unless a new incarnation is asked for")
	case u.Run.Restart != service.Always && clean:
		m.spend(u, now, false, "it ended by itself: "+u.End.Why)
		m.say(u, Info, u.Spent)
	case u.lostNeeds != 0 && now-u.lostNeeds <= needsGrace:
		m.enter(u, now, Backoff, u.End.Why+", while it lacked what it needs")
		u.Until = now + firstBackoff
		m.say(u, Warn, u.Reason)
	default:
		m.fail(u, now)
	}
}

// lost counts the instances that still were when their server ended.
func lost(instances []service.Instance) string {
	n := 0
	for _, i := range instances {
		if !i.Ended() {
			n++
		}
	}
	if n == 0 {
		return ""
	}
	return ", and with it " + count(n, "instance", "instances")
}

// spend has a service not start again.
func (m *Machine) spend(u *unit, now time.Duration, failed bool, why string) {
	u.Spent, u.Failed = why, failed
	m.enter(u, now, u.final(), why)
}

// tellReady says once that an incarnation is ready.
func (m *Machine) tellReady(u *unit, now time.Duration) {
	u.dirty = true
	if u.Ready {
		m.say(u, Info, fmt.Sprintf("ready after %s", (now-u.Since).Round(10*time.Millisecond)))
	}
}
