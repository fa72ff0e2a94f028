// Package pid1 is what stands below the agent. PID 1 is the warden (Guard),
// which does nothing but outlive init. init (Run) mounts, logs, starts the
// agent, catches its crashes, reaps, feeds the watchdog, restarts the machine.
// Neither knows of networks, TPMs or clusters.
//
// Nothing here waits on a console, a disk or the agent: each of those has a
// goroutine of its own, and whoever needs an answer has a deadline.
package pid1

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/signal"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"reveille/boot/proc"
	"reveille/console"
)

// Options is what the wiring in init/ knows.
type Options struct {
	BuildID   string
	Program   string   // the path of this program
	InitArgs  []string // what makes it init, argv[0] first
	AgentArgs []string // what makes it the agent
	Launcher  proc.Launcher
}

// Init is the state of init.
type Init struct {
	options Options
	log     *console.Log
	screens *console.Engine
	table   *proc.Table
	stopped chan proc.Restart // the first request to end wins
	records *recorder
	forced  ledger
	newest  *console.Newest
	redraw  chan chan struct{} // asks for the status screen at once; nil without one
	note    *os.File           // where the warden reads the stage when init is dead; nil without a warden

	hungAfter time.Duration // hungAfter; tests have less patience
	dumpGrace time.Duration // likewise
	sysctl    func(setting) error
	begun     time.Time
	turned    atomic.Int64 // when the loop last turned, since begun
	stepUntil atomic.Int64 // when the present step of the stop is over, since begun; 0 before the stop
	inRow     atomic.Int64 // forced reboots before this boot

	mu         sync.Mutex
	progress   proc.Progress
	heard      time.Time // the agent's last sign of life
	agentBegun time.Time // when the agent was started
	agentDown  string    // why no agent runs, and when one will
	crashes    proc.Crashes
	crashed    []string             // the summary of the last of them
	ending     string               // why the machine stops
	kept       map[proc.Slot][]byte // secrets of the agent's: never logged
}

func newInit(o Options) *Init {
	i := &Init{
		options: o,
		log:     console.NewLog(console.DefaultLimits(), console.BootTime),
		table:   proc.NewTable(console.BootTime, o.Launcher),
		stopped: make(chan proc.Restart, 1),
		forced:  forced,

		hungAfter: hungAfter,
		dumpGrace: dumpGrace,
		sysctl:    setting.apply,
		begun:     time.Now(),
		kept:      map[proc.Slot][]byte{},
	}
	i.heard, i.agentBegun = i.begun, i.begun
	i.newest = i.log.Newest(console.Warn, keptRecent)
	i.screens = console.NewEngine(i.log, console.Options{State: i.state, Threshold: console.Info})
	i.records = newRecorder(bootID, newRecordDisk(o.BuildID), i.say)
	i.records.judged = i.judged
	return i
}

// Run is init's life, as the warden's child or, when there can be no warden, as
// PID 1. It does not return.
func Run(o Options) {
	faultAtStart()
	i := newInit(o)
	heard := make(chan os.Signal, 4)
	signal.Notify(heard, asked()...)
	signal.Notify(heard, meaningless...)
	if os.Getpid() != 1 {
		unix.Close(readyFD) // the warden holds signals back until then
	}
	problems := i.settle()
	i.info("reveille %s, pid %d", o.BuildID, os.Getpid())
	for _, err := range problems {
		i.warn("%v, going on without it", err)
	}

	ctx, cancel := context.WithCancel(context.Background())
	go i.readKernel(ctx)
	i.openConsoles(ctx)
	sigchld := make(chan os.Signal, 1)
	signal.Notify(sigchld, syscall.SIGCHLD)
	go i.table.Reap(context.Background(), sigchld) // to the very end: an ordered stop waits for exits
	go i.obey(heard)
	go i.watchButtons(ctx)
	go i.keepWatchdog()
	go i.records.run()
	go i.keepAgent(ctx)
	go i.forgive(ctx)
	r := i.untilEnd()
	cancel()
	i.stop(r)
	select {} // the kernel ends this
}

// settle makes this process the init of the machine, and returns what it could
// not do.
func (i *Init) settle() (problems []error) {
	if os.Getpid() == 1 {
		leaveConsole()
	} else {
		unix.CloseOnExec(noteFD)
		i.note = os.NewFile(noteFD, "note")
		unix.CloseOnExec(logFD)
		if last, err := mapLastLog(os.NewFile(logFD, "log")); err != nil {
			problems = append(problems, err)
		} else {
			i.log.Tee(last.add)
		}
		// What the agent or a service leaves behind comes to us, not to PID 1.
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
			problems = append(problems, fmt.Errorf("become reaper of orphans: %w", err))
		}
	}
	problems = append(problems, mountAPI(apiMounts)...)
	return append(problems, settleKernel(i.options.Program)...)
}

// untilEnd is init's loop: it turns, for the watchdog to see, until the end is
// asked for.
func (i *Init) untilEnd() proc.Restart {
	tick := time.NewTicker(turnEvery)
	defer tick.Stop()
	for {
		i.turn()
		select {
		case r := <-i.stopped:
			return r
		case <-tick.C:
		}
	}
}

// leaveConsole points fds 0 to 2 away from the console that the kernel opened
// for us: a write to an unread UART blocks, and a close of it waits 30 s.
func leaveConsole() {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return // the image has no /dev/null; then there is no console either
	}
	for fd := range 3 {
		_ = unix.Dup3(int(null.Fd()), fd, 0) // cannot fail on valid numbers
	}
}

// signals that ask for an end, as sysvinit, busybox and systemd have them.
// The kernel sends SIGINT on ctrl-alt-del, and SIGPWR comes from UPS daemons.
var signals = map[os.Signal]proc.Restart{
	unix.SIGINT:  {How: proc.Reboot, Reason: "ctrl-alt-del, or SIGINT to init"},
	unix.SIGTERM: {How: proc.Reboot, Reason: "SIGTERM to init"},
	unix.SIGPWR:  {How: proc.PowerOff, Reason: "power failure (SIGPWR)"},
	unix.SIGUSR2: {How: proc.PowerOff, Reason: "SIGUSR2 to init"},
}

func asked() []os.Signal { return slices.Collect(maps.Keys(signals)) }

// meaningless are signals that mean nothing to init and that the Go runtime
// would end it for. SIGQUIT and SIGABRT are left to do that, with a dump.
var meaningless = []os.Signal{unix.SIGHUP, unix.SIGUSR1, unix.SIGALRM, unix.SIGPIPE}

// obey turns signals into an ordered stop.
func (i *Init) obey(heard <-chan os.Signal) {
	// The kernel itself reboots on ctrl-alt-del unless told not to.
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF); err != nil {
		i.warn("turn off the kernel's ctrl-alt-del: %v, going on with it", err)
	}
	for s := range heard {
		if r, ok := signals[s]; ok {
			i.end(r)
		}
	}
}

// end asks for the end of everything; a second request changes nothing.
func (i *Init) end(r proc.Restart) {
	select {
	case i.stopped <- r:
	default:
	}
}

// state is what a console shows when it comes back from a stall.
func (i *Init) state() []string {
	i.mu.Lock()
	defer i.mu.Unlock()
	line := "stage " + i.progress.Stage
	if i.progress.Stage == "" {
		line = "the agent has not reported yet"
	}
	if i.progress.Waiting != "" {
		line += ": " + i.progress.Waiting
	}
	lines := []string{line}
	if i.crashes.Count > 0 {
		lines = append(lines, fmt.Sprintf("the agent crashed %d times, last: %s", i.crashes.Count, i.crashes.Last))
	}
	return lines
}

const origin = "init"

func (i *Init) info(format string, args ...any)  { i.say(console.Info, format, args...) }
func (i *Init) warn(format string, args ...any)  { i.say(console.Warn, format, args...) }
func (i *Init) error(format string, args ...any) { i.say(console.Error, format, args...) }

func (i *Init) say(level console.Level, format string, args ...any) {
	i.log.Append(origin, level, fmt.Sprintf(format, args...))
}

// pause waits and tells whether ctx still lives.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
