package pid1

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"reveille/boot/proc"
	"reveille/console"
)

// The bounds of an ordered stop. Their sum is what an operator waits at most
// after `reboot`, whatever hangs: a service, a disk, a network file system.
const (
	agentGrace  = 2 * time.Second  // after SIGTERM to the agent; it holds nothing that must be saved
	termGrace   = 5 * time.Second  // after SIGTERM to services; etcd and containerd need 1-3 s
	killGrace   = 2 * time.Second  // after SIGKILL; longer means a process in D state
	syncGrace   = 5 * time.Second  // a slow USB stick writes its cache in 2-4 s
	wholeStop   = 18 * time.Second // then the kernel restarts, come what may
	lastWordsIn = 200 * time.Millisecond
)

// stop ends everything in order and restarts or powers off the machine. It
// does not return. Each step has its own bound and a timer stands over all, so
// that nothing here can keep a machine from its reboot.
func (i *Init) stop(r proc.Restart) {
	time.AfterFunc(wholeStop, func() { restartMachine(r.How) })
	i.step(2 * lastWordsIn)
	i.mu.Lock()
	i.ending = fmt.Sprintf("%s: %s", r.How, r.Reason)
	i.mu.Unlock()
	i.screens.Last(lastWordsIn, i.ending)
	i.drawNow(lastWordsIn)
	i.stopProcesses(killAll)
	i.step(endJournal)
	i.records.end(r)
	strikeStop()
	i.info("file systems: writing back")
	i.step(syncGrace)
	within(syncGrace, func() { unmountDisks(); unix.Sync() })
	i.step(lastWordsIn)
	i.screens.Last(lastWordsIn, fmt.Sprintf("%s now", r.How))
	restartMachine(r.How)
}

// stopProcesses ends the agent first, so that it does not answer the end of
// its services, then the rest: asked first, then killed, with everything else
// that runs on the machine.
func (i *Init) stopProcesses(killAll func()) {
	i.step(agentGrace)
	i.askToEnd(agentGrace, func(p proc.Process) bool { return p.Name == proc.AgentName })
	i.step(termGrace)
	i.askToEnd(termGrace, func(p proc.Process) bool { return p.Name != proc.AgentName })
	i.step(killGrace)
	ctx, cancel := context.WithTimeout(context.Background(), killGrace)
	defer cancel()
	killAll()
	if left := i.awaitAll(ctx, i.table.List()); len(left) > 0 {
		i.warn("%s: killed and still there; going on", console.Examples("processes", left, 3))
	}
}

// killAll kills everything but PID 1 and the caller (kill(2), pid -1).
func killAll() {
	_ = unix.Kill(-1, unix.SIGKILL) // ESRCH: nothing is left
}

// askToEnd sends SIGTERM to those that run, all at once, and gives them d.
func (i *Init) askToEnd(d time.Duration, which func(proc.Process) bool) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	asked := i.table.List()
	asked = slices.DeleteFunc(asked, func(p proc.Process) bool { return !p.Running() || !which(p) })
	for _, p := range asked {
		if err := i.table.Signal(p.Name, p.Incarnation, syscall.SIGTERM); err != nil {
			i.warn("%v", err)
		}
	}
	if left := i.awaitAll(ctx, asked); len(left) > 0 {
		i.warn("%s: no end within %s of SIGTERM; killing", console.Examples("processes", left, 3), d)
	}
}

// awaitAll returns who has not ended when ctx ends.
func (i *Init) awaitAll(ctx context.Context, all []proc.Process) (left []string) {
	for _, p := range all {
		if !p.Running() {
			continue
		}
		if _, err := i.table.Wait(ctx, p.Name, p.Incarnation); err != nil {
			left = append(left, fmt.Sprintf("%s (pid %d)", p.Name, p.PID))
		}
	}
	return left
}

// unmountDisks unmounts every file system that lies on a block device, newest
// first. What is busy is detached: the sync after it still writes its data.
func unmountDisks() {
	var targets []string
	f, err := os.Open("/proc/self/mounts")
	if err != nil {
		return // no /proc, so nothing of ours was mounted either
	}
	defer f.Close()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) > 2 && strings.HasPrefix(fields[0], "/dev/") {
			targets = append([]string{fields[1]}, targets...)
		}
	}
	for _, t := range targets {
		if unix.Unmount(t, 0) != nil {
			_ = unix.Unmount(t, unix.MNT_DETACH) // the last resort, nothing left to do about it
		}
	}
}

func restartMachine(how proc.RestartHow) {
	cmd := unix.LINUX_REBOOT_CMD_RESTART
	if how == proc.PowerOff {
		cmd = unix.LINUX_REBOOT_CMD_POWER_OFF
	}
	_ = unix.Reboot(cmd) // returns only without CAP_SYS_BOOT, which PID 1 has
}

// within runs f and stops waiting for it after d.
func within(d time.Duration, f func()) {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
	case <-time.After(d):
	}
}
