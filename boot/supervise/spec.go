package supervise

import (
	"fmt"
	"slices"
	"strings"

	"reveille/boot/proc"
	"reveille/boot/service"
)

// defaultPath is where a program finds others, unless the definition says so.
const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// specOf is what init is asked for.
func specOf(d service.Service, ref service.Ref, made Prepared) proc.Spec {
	setup := &proc.Setup{
		Root: made.Root, Folders: made.Folders, Namespaces: d.Namespaces, User: d.User, Group: d.Group,
		NoNewPrivileges: d.NoNewPrivileges, Core: d.Core.Limit > 0, CoreFilter: d.Core.Filter,
	}
	if d.Capabilities != nil {
		setup.Confined = true
		for _, name := range *d.Capabilities {
			if n, ok := service.Capability(name); ok { // all are known: parsing checks
				setup.Capabilities |= 1 << n
			}
		}
	}
	env := slices.Concat(d.Env, made.Env)
	if !slices.ContainsFunc(env, func(e string) bool { return strings.HasPrefix(e, "PATH=") }) {
		env = append(env, defaultPath)
	}
	if d.Alive != nil && d.Alive.Notify {
		env = append(env, fmt.Sprintf("WATCHDOG_USEC=%d", d.Alive.Interval.Microseconds())) // sd_watchdog_enabled(3)
	}
	dir := d.Dir
	if dir == "" {
		dir = "/"
	}
	return proc.Spec{
		Name: ref.Service, Incarnation: ref.Incarnation, Generation: ref.Generation,
		Path: d.Command[0], Argv: d.Command, Env: env, Dir: dir, Setup: setup,
		LogRate: d.Logs.Rate, LogBurst: d.Logs.Burst,
		Terminal: d.Terminal, Notify: d.Ready != nil && d.Ready.Notify || d.Alive != nil && d.Alive.Notify,
	}
}

// ProbeSpec is what init is asked for to run a program beside an incarnation:
// in its cgroup and root, as its user.
func ProbeSpec(w Watched, argv []string) proc.Spec {
	spec := specOf(w.Service, w.Ref, Prepared{})
	spec.Name += "/probe" // no service has such a name
	spec.Path, spec.Argv = argv[0], argv
	spec.Terminal, spec.Notify = false, false
	spec.Setup.Core = false // there is room for one, and it is the service's
	spec.Setup.Cgroup, spec.Setup.Join, spec.Setup.Namespaces = w.Cgroup, w.PID, nil
	return spec
}

// plain takes off a control operation's name: "start: start etcd: set user ...".
func plain(err error) error { return plainError{err} }

type plainError struct{ error }

func (p plainError) Error() string {
	text := p.error.Error()
	for _, op := range []string{proc.OpStart, proc.OpSignal} {
		if rest, found := strings.CutPrefix(text, op+": "+op+" "); found {
			return op + " " + rest
		}
	}
	return text
}

func (p plainError) Unwrap() error { return p.error }
