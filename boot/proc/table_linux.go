package proc

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Table holds every process that init started, running or the last exited of
// its name.
type Table struct {
	now      func() time.Duration
	launcher Launcher
	patience time.Duration // execPatience; tests have less

	mu    sync.Mutex // held across fork and registration: see reapOne
	procs map[string]*entry
	exits uint64        // how many there were
	ended chan struct{} // closed and replaced at each exit
}

type entry struct {
	Process
	order   uint64        // among the exits that are told; 0: it is not
	begun   bool          // it is the program that was asked for, as far as is known
	exited  chan struct{} // closed when Exit is set
	drained chan struct{} // closed when both outputs reached their end

	terminal *terminal    // nil: it has pipes
	notify   *noticeBoard // nil: it has no notify socket
}

// NewTable makes an empty table; now is the time since boot. With the zero
// Launcher, whoever starts a program on a disk waits for the disk, and so does
// everybody else.
func NewTable(now func() time.Duration, l Launcher) *Table {
	return &Table{now: now, launcher: l, patience: execPatience, procs: map[string]*entry{}, ended: make(chan struct{})}
}

// Output is who reads what a child writes, each to the end, without waiting
// for anything else: a pipe that is not read hangs the process that dies into
// it. A reader that gives up early is relieved by one that throws away. All that
// a child with a terminal writes is its Stdout.
type Output struct {
	Stdout, Stderr func(io.Reader)
	Status         func(string) // hears each STATUS= of a child that notifies; may be nil
}

// Start runs spec in a session of its own, with stdin from /dev/null and extra
// as file descriptors 3 and up (closed here afterwards). It refuses a name that
// still runs: a second incarnation beside the first is never right. A program
// on a disk that does not answer is a process already, and if it cannot run
// after ctx, whose end means that nobody hears of it here, that is its exit.
func (t *Table) Start(ctx context.Context, spec Spec, out Output, extra ...*os.File) (Process, error) {
	defer closeAll(extra)
	if spec.Name == "" || spec.Path == "" || len(spec.Argv) == 0 {
		return Process{}, fmt.Errorf("start %q: a name and a command are needed", spec.Name)
	}
	if !t.launcher.launches(spec.Path) && spec.Setup == nil {
		e, p, err := t.start(spec, spec, out, extra)
		if err == nil {
			t.begin(e)
		}
		return p, err
	}
	word, theirs, err := os.Pipe()
	if err != nil {
		return Process{}, fmt.Errorf("start %s: make pipe: %w", spec.Name, err)
	}
	files := append(slices.Clone(extra), theirs)
	run := Spec{Path: t.launcher.Path, Argv: t.launcher.argv(spec, 2+len(files)), Env: spec.Env, Setup: spec.Setup, Terminal: spec.Terminal}
	e, p, err := t.start(spec, run, out, files)
	theirs.Close()
	if err != nil {
		word.Close()
		return Process{}, err
	}
	if err := launched(word, t.patience); err != nil {
		<-e.exited // which it does by itself
		if ctx.Err() != nil {
			t.begin(e)
		} else {
			t.forget(e)
		}
		return Process{}, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	t.begin(e)
	return p, nil
}

// begin has a process's exit told: before, it is its launcher's.
func (t *Table) begin(e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e.begun = true
	t.tellExit(e)
}

// tellExit tells an exit, once, if it is one to tell. Called with the lock held.
func (t *Table) tellExit(e *entry) {
	if e.Running() || !e.begun || e.order != 0 {
		return
	}
	t.exits++
	e.order = t.exits
	close(t.ended)
	t.ended = make(chan struct{})
}

// start runs the command of run as the process that spec describes, and enters
// it into the table: its row, and what stood there at the start.
func (t *Table) start(spec, run Spec, out Output, extra []*os.File) (*entry, Process, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.procs[spec.Name]; e != nil && e.Running() {
		return nil, Process{}, fmt.Errorf("start %s: already runs as pid %d, incarnation %d", spec.Name, e.PID, e.Incarnation)
	} else if e != nil && spec.Incarnation <= e.Incarnation && spec.Incarnation > 0 {
		// A request of an agent that has died meanwhile: the next one is further.
		return nil, Process{}, fmt.Errorf("start %s: incarnation %d comes after incarnation %d", spec.Name, spec.Incarnation, e.Incarnation)
	}
	held, err := hold(spec)
	if err != nil {
		return nil, Process{}, fmt.Errorf("start %s: %w", spec.Name, err)
	}
	run.Env = slices.Concat(run.Env, held.env)
	pid, err := fork(run, slices.Concat(held.child, extra))
	closeAll(held.child)
	if err != nil {
		held.close()
		return nil, Process{}, fmt.Errorf("start %s: exec %s: %w", spec.Name, run.Path, err)
	}
	shareOOM(pid)
	e := &entry{
		Process:  Process{Spec: spec, PID: pid, Started: t.now()},
		exited:   make(chan struct{}),
		drained:  make(chan struct{}),
		terminal: held.terminal,
	}
	t.procs[spec.Name] = e
	go held.drain(out, e.drained)
	if held.notify != nil {
		e.notify = newNoticeBoard()
		go e.notify.hear(held.notify, e.Process, out.Status)
		go func() {
			<-e.exited
			held.notify.Close()
		}()
	}
	return e, e.Process, nil
}

// forget takes a process out of the table that never became what was asked for.
func (t *Table) forget(e *entry) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.procs[e.Name] == e {
		delete(t.procs, e.Name)
	}
}

func fork(spec Spec, files []*os.File) (int, error) {
	fds := make([]uintptr, len(files))
	for i, f := range files {
		fds[i] = f.Fd()
	}
	sys := &syscall.SysProcAttr{Setsid: true, Setctty: spec.Terminal}
	if spec.Setup.has("pid") {
		sys.Cloneflags = syscall.CLONE_NEWPID // the others are the launcher's to make: they may take long
	}
	return syscall.ForkExec(spec.Path, spec.Argv, &syscall.ProcAttr{Dir: spec.Dir, Env: spec.Env, Files: fds, Sys: sys})
}

// shareOOM takes from a child the protection from the OOM killer that init has
// and a child inherits: the agent is started again without loss, and a service
// may ask for more. Between them the kernel takes the largest.
func shareOOM(pid int) {
	// No /proc, or the child is dead already: there is nothing to take, ignoring.
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", pid), []byte("0"), 0)
}

// Reap collects exits until ctx ends. Each value on sigchld stands for one or
// more exits.
func (t *Table) Reap(ctx context.Context, sigchld <-chan os.Signal) {
	for {
		for t.reapOne() {
		}
		select {
		case <-ctx.Done():
			return
		case <-sigchld:
		}
	}
}

// reapOne collects one exit, and tells whether there may be more. It holds the
// lock from wait4 to the record: Start holds it from fork to the record, so a
// child that exits at once is found, and Signal holds it too, so that a pid
// freed here and reused by the kernel is never signalled.
func (t *Table) reapOne() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	var ws syscall.WaitStatus
	pid, err := syscall.Wait4(-1, &ws, syscall.WNOHANG, nil)
	if err == syscall.EINTR {
		return true
	}
	if err != nil || pid <= 0 {
		return false // ECHILD: no children; 0: none has exited
	}
	for _, e := range t.procs {
		if e.PID == pid && e.Running() {
			e.Exit = ExitOf(ws, t.now())
			close(e.exited)
			t.tellExit(e)
			return true
		}
	}
	return true // an orphan that the kernel handed to init
}

// List returns all rows, by name.
func (t *Table) List() []Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	rows := make([]Process, 0, len(t.procs))
	for _, e := range t.procs {
		rows = append(rows, e.Process)
	}
	slices.SortFunc(rows, func(a, b Process) int { return strings.Compare(a.Name, b.Name) })
	return rows
}

// Wait returns the row of name and incarnation once it has exited. Its output
// may still be arriving; see Drained.
func (t *Table) Wait(ctx context.Context, name string, incarnation uint64) (Process, error) {
	e, err := t.find(name, incarnation)
	if err != nil {
		return Process{}, err
	}
	select {
	case <-e.exited: // even if ctx is over as well: the answer is there
		return e.Process, nil
	default:
	}
	select {
	case <-ctx.Done():
		return Process{}, ctx.Err()
	case <-e.exited:
		return e.Process, nil
	}
}

// Drained returns once everything that name wrote has been read, or ctx ends:
// a grandchild that kept the pipe open must not hold the caller for ever.
func (t *Table) Drained(ctx context.Context, name string, incarnation uint64) error {
	e, err := t.find(name, incarnation)
	if err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-e.drained:
		return nil
	}
}

// Signal sends sig to the process group of name, if that incarnation still
// runs.
func (t *Table) Signal(name string, incarnation uint64, sig syscall.Signal) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.procs[name]
	if e == nil || e.Incarnation != incarnation || !e.Running() {
		return fmt.Errorf("signal %s incarnation %d: not running", name, incarnation)
	}
	if err := syscall.Kill(-e.PID, sig); err != nil {
		return fmt.Errorf("signal %s (pid %d): %w", name, e.PID, err)
	}
	return nil
}

func (t *Table) find(name string, incarnation uint64) (*entry, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	e := t.procs[name]
	if e == nil || e.Incarnation != incarnation {
		return nil, fmt.Errorf("no process %s with incarnation %d", name, incarnation)
	}
	return e, nil
}

func closeAll(files []*os.File) {
	for _, f := range files {
		_ = f.Close() // nil, closed before or never written to
	}
}
