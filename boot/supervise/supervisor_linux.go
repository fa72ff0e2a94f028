package supervise

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"reveille/boot/proc"
	"reveille/boot/service"
)

// Init is what init does for a Supervisor: proc.Client.
type Init interface {
	Start(context.Context, proc.Spec) (proc.Process, error)
	Signal(context.Context, proc.Target) error
	List(context.Context) ([]proc.Process, error)
	Exits(ctx context.Context, after uint64) (proc.Exits, error)
	Drained(context.Context, proc.Target) error
}

// Config is what a Supervisor works with.
type Config struct {
	Init    Init
	Boot    string
	Now     func() time.Duration // since boot
	Dir     string               // where Kept lies
	Cgroups Cgroups
	Log     *slog.Logger

	// Prepare makes all that a start needs beside the program itself: files,
	// the root. It may take long, and ends with its context.
	Prepare func(context.Context, service.Service, service.Ref) (Prepared, error)
	// Release removes what Prepare made, once nothing uses it.
	Release func(service.Ref) error
	// Watch monitors an incarnation until it is gone or the context ends.
	Watch func(context.Context, Watched, func(service.Report)) error
	// Bundle puts a death on record.
	Bundle func(context.Context, Death) error
	// Changed is called when the status has changed. It must not wait.
	Changed func()
}

// Prepared is what Prepare has made.
type Prepared struct {
	Root string // that becomes the service's /; empty: the machine's
	// Folders of the machine that it has in its root.
	Folders []proc.Folder
	Env     []string // beside the definition's
}

// Watched is an incarnation that a monitor looks at.
type Watched struct {
	Look
	service.Ref
	Service service.Service
	PID     int
	Cgroup  string
}

// Supervisor does what a Machine decides.
type Supervisor struct {
	Config
	keeper keeper
	news   chan func(now time.Duration) []Action
	done   chan struct{} // closed when the loop has ended: nobody hears then
	starts chan struct{} // one for each start that init is at

	mu      sync.Mutex
	machine *Machine

	// Of the loop alone.
	pids    map[service.Ref]int
	ending  map[service.Ref]context.CancelFunc // ends a start that is being prepared
	looking map[service.Ref]context.CancelFunc // ends a monitor
}

// maxStarts is how many programs init starts at a time. Each may take as long
// as its disk, though not longer than proc's patience with it, and is a process
// of ours until it is its program.
const maxStarts = 32

// New makes a Supervisor of services that nobody has wished for yet.
func New(c Config) *Supervisor {
	return &Supervisor{
		Config: c, keeper: keeper{c.Dir}, news: make(chan func(time.Duration) []Action),
		done: make(chan struct{}), starts: make(chan struct{}, maxStarts),
		machine: NewMachine(c.Boot), pids: map[service.Ref]int{},
		ending: map[service.Ref]context.CancelFunc{}, looking: map[service.Ref]context.CancelFunc{},
	}
}

// Status returns all services, by name.
func (s *Supervisor) Status() []Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.Status()
}

// Desire replaces all wishes; it returns once they are taken note of.
func (s *Supervisor) Desire(ctx context.Context, wishes []Wish) error {
	return s.tell(ctx, func(now time.Duration) []Action { return s.machine.Desired(now, wishes) })
}

// Run takes over what runs and supervises until ctx ends, or with the error
// that keeps it from hearing of exits. It is called once.
func (s *Supervisor) Run(ctx context.Context) error {
	ctx, end := context.WithCancelCause(ctx)
	defer close(s.done)
	defer end(nil)
	if err := s.Cgroups.Prepare(); err != nil {
		s.Log.Warn(err.Error() + ", going on: services cannot be started without them")
	}
	kept, problems := s.keeper.all()
	for _, err := range problems {
		s.Log.Error(err.Error() + ", going on without it")
	}
	rows, err := s.Init.List(ctx)
	if err != nil {
		return err
	}
	for _, p := range rows {
		s.pids[s.refOf(p)] = p.PID
	}
	s.turn(ctx, func(now time.Duration) []Action {
		return s.machine.Adopt(now, kept, rows, func(k Kept, exit proc.Exit) string { return s.Cgroups.OutOfMemory(k.Ref, exit, k.Run.Limits) })
	})
	go func() { end(s.hearExits(ctx)) }()
	for {
		s.mu.Lock()
		next := s.machine.Next()
		s.mu.Unlock()
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case event := <-s.news:
			s.turn(ctx, event)
		case <-s.until(next):
			s.turn(ctx, func(now time.Duration) []Action { return s.machine.Tick(now) })
		}
	}
}

// leastWait keeps a mistake in the machine from taking the processor.
const leastWait = 10 * time.Millisecond

func (s *Supervisor) until(at time.Duration) <-chan time.Time {
	if at == 0 {
		return nil
	}
	return time.After(max(at-s.Now(), leastWait))
}

// turn has one event decided, keeps what has to be kept, and acts.
func (s *Supervisor) turn(ctx context.Context, event func(time.Duration) []Action) {
	s.mu.Lock()
	acts := event(s.Now())
	changed := s.machine.Changed()
	s.mu.Unlock()
	unkept := map[service.Ref]error{}
	for _, k := range changed {
		if err := s.keeper.put(k); err != nil {
			s.Log.Error(err.Error() + "; an agent after this one will not know of it")
			unkept[k.Ref] = err
		}
	}
	for _, a := range acts {
		if err := unkept[a.Ref]; err != nil && a.Verb == Start {
			// The next agent would take what runs for somebody else's.
			go s.startFailed(ctx, a.Ref, err)
			continue
		}
		s.act(ctx, a)
	}
	if len(changed) > 0 {
		s.Changed()
	}
}

// tell hands an event to the loop.
func (s *Supervisor) tell(ctx context.Context, event func(time.Duration) []Action) error {
	select {
	case s.news <- event:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-s.done:
		return errEnded
	}
}

var errEnded = errors.New("the supervisor has ended")

// act begins an action. None of them is waited for here: a service that is
// stuck in one holds up no other.
func (s *Supervisor) act(ctx context.Context, a Action) {
	switch a.Verb {
	case Say:
		s.Log.Log(ctx, a.Level, a.Text)
	case Start:
		ctx, cancel := context.WithCancel(ctx)
		s.ending[a.Ref] = cancel
		go s.start(ctx, a)
	case Signal:
		s.cancelStart(a.Ref)
		go s.signal(ctx, a.Ref, a.Signal)
	case Kill:
		s.cancelStart(a.Ref)
		go s.kill(ctx, a.Ref)
	case Examine:
		s.cancelStart(a.Ref)
		delete(s.pids, a.Ref)
		go s.examine(ctx, a.Ref)
	case Bury:
		go s.bury(ctx, a.Death)
	case Watch:
		s.watch(ctx, a)
	case Unwatch:
		if stop := s.looking[a.Ref]; stop != nil {
			stop()
			delete(s.looking, a.Ref)
		}
	}
}

func (s *Supervisor) cancelStart(ref service.Ref) {
	if cancel := s.ending[ref]; cancel != nil {
		cancel()
		delete(s.ending, ref)
	}
}

func (s *Supervisor) start(ctx context.Context, a Action) {
	p, err := s.started(ctx, a)
	if err != nil {
		s.startFailed(ctx, a.Ref, err)
		return
	}
	_ = s.tell(context.WithoutCancel(ctx), func(now time.Duration) []Action { // the next agent looks by itself
		s.pids[a.Ref] = p.PID
		return s.machine.Started(now, a.Ref, p.Started)
	})
}

func (s *Supervisor) startFailed(ctx context.Context, ref service.Ref, err error) {
	_ = s.tell(context.WithoutCancel(ctx), func(now time.Duration) []Action { // the next agent looks by itself
		return s.machine.StartFailed(now, ref, err.Error())
	})
}

func (s *Supervisor) started(ctx context.Context, a Action) (proc.Process, error) {
	if err := s.Cgroups.Make(a.Ref, a.Service.Limits); err != nil {
		return proc.Process{}, fmt.Errorf("start %s: %w", a.Service.Name, err)
	}
	made, err := s.Prepare(ctx, a.Service, a.Ref)
	if err != nil {
		return proc.Process{}, fmt.Errorf("start %s: %w", a.Service.Name, err)
	}
	select {
	case s.starts <- struct{}{}:
	case <-ctx.Done():
		return proc.Process{}, fmt.Errorf("start %s: %w", a.Service.Name, ctx.Err())
	}
	defer func() { <-s.starts }()
	spec := specOf(a.Service, a.Ref, made)
	spec.Setup.Cgroup = s.Cgroups.Path(a.Ref)
	// Not cancelled any more: whether it came to be must be known.
	p, err := s.Init.Start(context.WithoutCancel(ctx), spec)
	if err != nil {
		return p, plain(err)
	}
	return p, nil
}

// signal: one that cannot be sent is to a process that has ended, or has not
// begun, and then the event of that comes.
func (s *Supervisor) signal(ctx context.Context, ref service.Ref, sig syscall.Signal) {
	err := s.Init.Signal(ctx, proc.Target{Name: ref.Service, Incarnation: ref.Incarnation, Signal: sig})
	if err != nil {
		s.Log.Debug(plain(err).Error() + ", ignoring")
	}
}

func (s *Supervisor) kill(ctx context.Context, ref service.Ref) {
	if err := s.Cgroups.Kill(ref); err != nil {
		s.Log.Warn(fmt.Sprintf("kill the cgroup of %s: %v; its first process is signalled instead", ref, err))
	}
	s.signal(ctx, ref, syscall.SIGKILL) // a launcher may not be in it yet
}

func (s *Supervisor) watch(ctx context.Context, a Action) {
	if a.Service.Ready == nil && a.Service.Alive == nil {
		return // its process speaks for itself, and init hears that
	}
	ctx, cancel := context.WithCancel(ctx)
	s.looking[a.Ref] = cancel
	w := Watched{Look: a.Look, Ref: a.Ref, Service: a.Service, PID: s.pids[a.Ref], Cgroup: s.Cgroups.Path(a.Ref)}
	go func() {
		err := s.Watch(ctx, w, func(r service.Report) {
			_ = s.tell(ctx, func(now time.Duration) []Action { return s.machine.Report(now, r) }) // nobody waits for it then
		})
		why := "without a reason"
		if err != nil {
			why = err.Error()
		}
		_ = s.tell(ctx, func(now time.Duration) []Action { return s.machine.MonitorEnded(now, a.Ref, why) })
	}()
}

// hearExits tells the machine of exits, until init is gone.
func (s *Supervisor) hearExits(ctx context.Context) error {
	for after := uint64(0); ; {
		found, err := s.Init.Exits(ctx, after)
		if err != nil {
			return fmt.Errorf("hear of exits: %w", err)
		}
		after = found.Last
		for _, p := range found.Rows {
			ref, exit := s.refOf(p), *p.Exit
			err := s.tell(ctx, func(now time.Duration) []Action {
				return s.machine.Exited(now, ref, exit, s.Cgroups.OutOfMemory(ref, exit, s.machine.limits(ref)))
			})
			if err != nil {
				return err
			}
		}
	}
}

func (s *Supervisor) refOf(p proc.Process) service.Ref {
	return service.Ref{Boot: s.Boot, Service: p.Name, Incarnation: p.Incarnation, Generation: p.Generation}
}

// limits of a present incarnation.
func (m *Machine) limits(ref service.Ref) service.Limits {
	if u := m.find(ref); u != nil {
		return u.Run.Limits
	}
	return service.Limits{}
}
