package supervise

import (
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"reveille/boot/service"
)

// Verb is what an Action does.
type Verb string

// The verbs. All but Say are of one incarnation.
const (
	Start   Verb = "start"   // tell: Started or StartFailed
	Signal  Verb = "signal"  // its processes
	Kill    Verb = "kill"    // all that is in its cgroup
	Examine Verb = "examine" // what is left of it; tell: Examined
	Bury    Verb = "bury"    // kill what is left, take the bundle, remove its cgroup; tell: Buried
	Watch   Verb = "watch"   // with a monitor; tell: Report, MonitorEnded
	Unwatch Verb = "unwatch" //
	Say     Verb = "say"     // to the log
)

// Levels of what is said.
const (
	Debug = slog.LevelDebug
	Info  = slog.LevelInfo
	Warn  = slog.LevelWarn
	Error = slog.LevelError
)

// Action is one thing to do.
type Action struct {
	Verb    Verb
	Ref     service.Ref
	Service service.Service // Start, Watch
	Look    Look            // Watch
	Signal  syscall.Signal  // Signal
	Death   Death           // Bury
	Level   slog.Level      // Say
	Text    string          // Say
}

// String is an Action for tests and people.
func (a Action) String() string {
	switch a.Verb {
	case Signal:
		return fmt.Sprintf("signal %s %s", a.Ref, a.Signal)
	case Say:
		return fmt.Sprintf("say %s: %s", a.Level, a.Text)
	case Bury:
		return fmt.Sprintf("bury %s: %s", a.Ref, a.Death.Why)
	}
	return fmt.Sprintf("%s %s", a.Verb, a.Ref)
}

// Look is what a monitor must know of an incarnation besides its definition.
type Look struct {
	Started time.Duration  // since boot
	Before  service.Report // that a monitor of it made; zero: none has
	Doubt   time.Duration  // how long that has been unknown
}

func (m *Machine) watch(u *unit, now time.Duration) {
	look := Look{Started: u.Started, Before: u.Told}
	if u.Told.Verdict == service.Unknown {
		look.Doubt = now - u.ToldAt
	}
	m.do(u, Action{Verb: Watch, Service: u.Run, Look: look})
}

// Death is what a bundle is made of.
type Death struct {
	service.Ref
	Ending
	Service   service.Service
	Started   time.Duration // since boot; 0: it never ran
	Instances []service.Instance
}

func (m *Machine) do(u *unit, a Action) {
	a.Ref = u.Ref
	m.acts = append(m.acts, a)
}

func (m *Machine) say(u *unit, level slog.Level, text string) {
	m.do(u, Action{Verb: Say, Level: level, Text: u.Ref.String() + ": " + text})
}
