package supervise

import (
	"time"

	"reveille/boot/service"
)

// State is what a service is at.
type State string

// The states. In Starting, Running, Stopping and Cleaning there is an
// incarnation, or its remains; in the others there is none.
const (
	Stopped  State = "stopped"  // it is not wanted, or ended by itself and was to go on
	Done     State = "done"     // it ended by itself and well, and nothing says that it was to go on
	Waiting  State = "waiting"  // for what it needs
	Starting State = "starting" //
	Running  State = "running"  // see Ready
	Stopping State = "stopping" // it was asked to end, or is killed
	Cleaning State = "cleaning" // dead; the bundle is taken and its remains are removed
	Backoff  State = "backoff"  // it failed and is started again
	Held     State = "held"     // it failed too often and is started again much later
	Failed   State = "failed"   // it is not started again unless an operator asks for it
)

func (s State) busy() bool { return s == Starting || s == Running || s == Stopping || s == Cleaning }

// Status is a service for operators.
type Status struct {
	service.Ref
	State     State
	Ready     bool
	Enabled   bool // it is to run
	Since     time.Duration
	Started   time.Duration   // its last incarnation was
	Terminal  bool            // that incarnation has one
	Next      time.Duration   // something happens by itself; 0: nothing does
	Reason    string          // one sentence: why it is not running and ready; empty when it is
	Verdict   service.Verdict // of its monitor; empty while nobody looks
	Instances []service.Instance
	Needs     []string // services that it waits for
}

// Healthy tells whether it is as it is wished, as far as anybody knows. One that
// was to go on and ended by itself is not, however well it ended: see final.
func (s Status) Healthy() bool {
	if !s.Enabled {
		return s.State == Stopped
	}
	return s.State == Done || s.State == Running && s.Ready && s.Reason == ""
}

// Status returns all services that are defined, or are not dead yet, by name.
func (m *Machine) Status() (all []Status) {
	waiters := map[string][]string{}
	for _, u := range m.inOrder() {
		if u.State == Waiting {
			for _, need := range u.needs {
				waiters[need] = append(waiters[need], u.Service)
			}
		}
	}
	for _, u := range m.inOrder() {
		if u.wish.Name == "" && !u.State.busy() && m.desired {
			continue
		}
		s := Status{
			Ref: u.Ref, State: u.State, Ready: u.Ready && u.State == Running, Enabled: u.wanted(), Since: u.Since, Started: u.Started, Terminal: u.Run.Terminal, Next: u.Until,
			Reason: u.tell(), Instances: u.Instances,
		}
		if u.State == Running || u.Told.Verdict == service.Gone { // else nobody looks any more
			s.Verdict = u.Told.Verdict
		}
		if u.State == Waiting {
			s.Needs = u.needs
		}
		if names := waiters[u.Service]; len(names) > 0 && s.Reason != "" {
			s.Reason += "; needed by " + few(names)
		}
		all = append(all, s)
	}
	return all
}

// tell is the reason that people see.
func (u *unit) tell() string {
	switch {
	case u.State != Running:
		return u.Reason
	case u.Unknown != "":
		return u.Unknown
	case !u.Ready:
		return "not ready yet"
	case u.outdated():
		return "its definition changed, and the old one still runs: it is never restarted unless a new incarnation is asked for"
	}
	return ""
}

func (u *unit) wanted() bool { return u.wish.Name != "" && !u.wish.Stopped }

// outdated: what runs, or ran last, is not what is wished.
func (u *unit) outdated() bool {
	return u.wish.Name != "" && u.Incarnation > 0 && u.wish.Digest != u.Run.Digest
}

// enter changes the state.
func (m *Machine) enter(u *unit, now time.Duration, s State, reason string) {
	if u.State != s || u.Reason != reason {
		u.dirty = true
	}
	if u.State != s {
		u.Since, u.Until = now, 0
	}
	u.State, u.Reason = s, reason
}
