// Package pid1 is init's life: mount, log, start the agent, catch its crashes,
// reap, restart the machine. It knows nothing of networks, TPMs or clusters.
//
// Nothing here waits on a console, a disk or the agent: each of those has a
// goroutine of its own, and whoever needs an answer has a deadline.
package pid1

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"sync"
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
	AgentArgs []string // what makes it the agent, argv[0] first
}

// Init is the state of PID 1.
type Init struct {
	options Options
	log     *console.Log
	screens *console.Engine
	table   *proc.Table
	stopped chan proc.Restart // the first request to end wins
	records *recorder
	forced  ledger

	hungAfter time.Duration // hungAfter; tests have less patience

	mu         sync.Mutex
	progress   proc.Progress
	heard      time.Time // the agent's last sign of life
	agentBegun time.Time // when the agent was started
	crashes    proc.Crashes
	kept       []byte // a secret of the agent's: never logged
}

func newInit(o Options) *Init {
	i := &Init{
		options: o,
		log:     console.NewLog(console.DefaultLimits(), console.BootTime),
		table:   proc.NewTable(console.BootTime),
		stopped: make(chan proc.Restart, 1),
		forced:  forced,

		hungAfter: hungAfter,
		heard:     time.Now(), agentBegun: time.Now(),
	}
	i.screens = console.NewEngine(i.log, console.Options{State: i.state, Threshold: console.Info})
	i.records = newRecorder(bootID, newRecordDisk(o.BuildID), i.say)
	return i
}

// Run is called first thing in PID 1, and does not return.
func Run(o Options) {
	i := newInit(o)
	leaveConsole()
	problems := mountAPI(apiMounts)
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
	go i.obey()
	go i.records.run()
	go i.keepAgent(ctx)
	go i.forgive(ctx)
	r := <-i.stopped
	cancel()
	i.stop(r)
	select {} // the kernel ends this
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

// obey turns signals into an ordered stop.
func (i *Init) obey() {
	// The kernel itself reboots on ctrl-alt-del unless told not to.
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_CAD_OFF); err != nil {
		i.warn("turn off the kernel's ctrl-alt-del: %v, going on with it", err)
	}
	ch := make(chan os.Signal, 4)
	for s := range signals {
		signal.Notify(ch, s)
	}
	for s := range ch {
		i.end(signals[s])
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
