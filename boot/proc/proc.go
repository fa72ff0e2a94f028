// Package proc is the process table and the control socket: the two things by
// which init (PID 1) and the agent share the machine's processes.
//
// init owns all waiting. One loop calls wait4(-1); everybody else asks the
// Table, or, from the agent's side of the control socket, the Client. A second
// waiter in the same process steals exit statuses (measured: 132 of 300 lost
// with os/exec beside a wait4 loop), so this package never uses os/exec.
package proc

import (
	"fmt"
	"syscall"
	"time"
)

// AgentName is the name of the agent's own row in the table.
const AgentName = "agent"

// Spec says what to run. Name, Incarnation and Generation, with the boot id,
// are the identity by which a restarted agent knows the process again.
type Spec struct {
	Name        string   `json:"name"`        // of the service; one live process a name
	Incarnation uint64   `json:"incarnation"` // counts the starts of Name in this boot
	Generation  uint64   `json:"generation"`  // of the definition it was started from
	Path        string   `json:"path"`        // of the program
	Argv        []string `json:"argv"`        // argv[0] first
	Env         []string `json:"env,omitempty"`
	Dir         string   `json:"dir,omitempty"`
	Setup       *Setup   `json:"setup,omitempty"`    // nil: as init runs
	Terminal    bool     `json:"terminal,omitempty"` // its standard files are a terminal (OpTerminal, OpType), not pipes
	Notify      bool     `json:"notify,omitempty"`   // it finds a socket for sd_notify(3) (OpNotices) by NOTIFY_SOCKET
	LogRate     uint64   `json:"logRate,omitempty"`  // bytes a second of its output that are kept; 0: all
	LogBurst    uint64   `json:"logBurst,omitempty"` // bytes that may come at once above it
}

// Process is one row of the table.
type Process struct {
	Spec
	PID     int           `json:"pid"`
	Started time.Duration `json:"started"` // since boot
	Exit    *Exit         `json:"exit,omitempty"`
}

// Running tells whether no exit has been collected.
func (p Process) Running() bool { return p.Exit == nil }

// Exit is how a process ended.
type Exit struct {
	Code   int           `json:"code"`   // exit status; -1 when killed by a signal, or when it never ran
	Signal int           `json:"signal"` // signal number, 0 when it exited
	Core   bool          `json:"core"`
	At     time.Duration `json:"at"` // since boot
}

// ExitOf reads a wait status collected at an uptime.
func ExitOf(ws syscall.WaitStatus, at time.Duration) *Exit {
	if ws.Signaled() {
		return &Exit{Code: -1, Signal: int(ws.Signal()), Core: ws.CoreDump(), At: at}
	}
	return &Exit{Code: ws.ExitStatus(), At: at}
}

// Clean tells whether the process ended by itself with status 0.
func (e Exit) Clean() bool { return e.Signal == 0 && e.Code == 0 }

// String words the exit as operators know it from shells and systemd.
func (e Exit) String() string {
	if e.Signal == 0 && e.Code < 0 {
		return "never ran"
	}
	if e.Signal == 0 {
		return fmt.Sprintf("exit status %d", e.Code)
	}
	s := syscall.Signal(e.Signal)
	text := fmt.Sprintf("signal %d (%s)", e.Signal, s)
	if e.Core {
		text += ", core dumped"
	}
	return text
}
