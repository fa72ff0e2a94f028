package monitor

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Processes is a Witness of a service's processes: it looks at the first one
// through a descriptor that no other process can come to mean, and at the
// cgroup, which also has those that went their own ways.
type Processes struct {
	pid    int
	pidfd  int // -1: it had ended when we came
	cgroup string
}

// NewProcesses is a witness for the service whose first process is pid, in the
// cgroup with this folder (empty: it has none).
func NewProcesses(pid int, cgroup string) *Processes {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		fd = -1
	}
	return &Processes{pid: pid, pidfd: fd, cgroup: cgroup}
}

// Close lets go of the process.
func (p *Processes) Close() {
	if p.pidfd >= 0 {
		_ = unix.Close(p.pidfd) // nothing was written to it
	}
}

// See implements Witness.
func (p *Processes) See() Sight {
	if p.cgroup != "" {
		switch events, err := os.ReadFile(filepath.Join(p.cgroup, "cgroup.events")); {
		case errors.Is(err, os.ErrNotExist), err == nil && bytes.Contains(events, []byte("populated 0")):
			return Sight{Ended: true, Text: "no process is left in its cgroup"}
		}
	}
	if p.exited() {
		return Sight{Ended: true, Text: fmt.Sprintf("pid %d has ended", p.pid)}
	}
	return Sight{Text: fmt.Sprintf("pid %d %s", p.pid, p.doing())}
}

// exited: a pidfd is readable once its process has ended.
func (p *Processes) exited() bool {
	if p.pidfd < 0 {
		return true
	}
	n, err := unix.Poll([]unix.PollFd{{Fd: int32(p.pidfd), Events: unix.POLLIN}}, 0)
	return err == nil && n > 0
}

// doing is the process's state for people (proc_pid_stat(5)).
func (p *Processes) doing() string {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", p.pid))
	_, after, found := bytes.Cut(stat, []byte(") ")) // the name before it may have anything in it but its end
	for found {
		var more []byte
		if _, more, found = bytes.Cut(after, []byte(") ")); found {
			after = more
		}
	}
	if err != nil || len(after) == 0 {
		return "cannot be seen"
	}
	switch after[0] {
	case 'T', 't':
		return "is stopped by a signal"
	case 'D':
		return "waits inside the kernel"
	case 'Z', 'X':
		return "has ended"
	}
	return "runs"
}
