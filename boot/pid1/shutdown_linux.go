package pid1

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"reveille/boot/proc"
)

// The bounds of an ordered stop. Their sum is what an operator waits at most
// after `reboot`, whatever hangs: a service, a disk, a network file system.
const (
	termGrace   = 5 * time.Second  // after SIGTERM; etcd and containerd need 1-3 s
	killGrace   = 2 * time.Second  // after SIGKILL; longer means a process in D state
	syncGrace   = 5 * time.Second  // a slow USB stick writes its cache in 2-4 s
	wholeStop   = 15 * time.Second // then the kernel restarts, come what may
	lastWordsIn = 200 * time.Millisecond
)

// stop ends everything in order and restarts or powers off the machine. It
// does not return. Each step has its own bound and a timer stands over all, so
// that nothing here can keep a machine from its reboot.
func (i *Init) stop(r proc.Restart) {
	time.AfterFunc(wholeStop, func() { restartMachine(r.How) })
	i.screens.Last(lastWordsIn, fmt.Sprintf("%s: %s", r.How, r.Reason))
	i.stopProcesses()
	i.info("file systems: writing back")
	within(syncGrace, func() { unmountDisks(); unix.Sync() })
	i.screens.Last(lastWordsIn, fmt.Sprintf("%s now", r.How))
	restartMachine(r.How)
}

// stopProcesses ends the agent first, so that it does not answer the end of
// its services, then the rest.
func (i *Init) stopProcesses() {
	ctx, cancel := context.WithTimeout(context.Background(), termGrace)
	defer cancel()
	for _, p := range i.table.List() {
		if p.Name == proc.AgentName {
			i.signal(p, syscall.SIGTERM)
			_, _ = i.table.Wait(ctx, p.Name, p.Incarnation) // bounded by ctx, then killed below
		}
	}
	for _, p := range i.table.List() {
		i.signal(p, syscall.SIGTERM)
	}
	i.awaitAll(ctx)

	ctx, cancel = context.WithTimeout(context.Background(), killGrace)
	defer cancel()
	_ = unix.Kill(-1, unix.SIGKILL) // everything but us; ESRCH: nothing is left
	i.awaitAll(ctx)
}

func (i *Init) awaitAll(ctx context.Context) {
	for _, p := range i.table.List() {
		if !p.Running() {
			continue
		}
		if _, err := i.table.Wait(ctx, p.Name, p.Incarnation); err != nil {
			i.warn("%s (pid %d) does not end; going on without it", p.Name, p.PID)
		}
	}
}

func (i *Init) signal(p proc.Process, sig syscall.Signal) {
	if !p.Running() {
		return
	}
	if err := i.table.Signal(p.Name, p.Incarnation, sig); err != nil {
		i.warn("%v", err)
	}
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
