// Package service says what a service is: a payload process that a node runs,
// how it is to be started, watched and ended, and what is to become of it when
// it dies. It only describes; boot/supervise decides, boot/monitor looks, init
// (boot/pid1) runs.
package service

import (
	"syscall"
	"time"
)

// Service is one definition, checked: from node.yaml, or from the cluster's
// desired configuration of the node.
type Service struct {
	Name       string // a DNS label; unique on a node
	Generation uint64 // of the document it is from: 0 is node.yaml, else the cluster counts it
	Digest     string // of the definition as it is run, hex SHA-256: another digest is another definition

	Command []string // the program's absolute path first; inside Payload, when there is one
	Env     []string // KEY=value; nothing is inherited from init
	User    string   // a name or number of the payload's /etc/passwd; empty: root
	Group   string   // empty: the user's own
	Dir     string   // absolute; empty: /
	Payload string   // the Payload whose files it sees as its root; empty: the image's

	Limits          Limits
	Capabilities    *[]string // the only ones it keeps, e.g. CAP_NET_ADMIN; nil: all that its user has
	NoNewPrivileges bool      // PR_SET_NO_NEW_PRIVS
	Namespaces      []string  // of its own: mount, pid, ipc, uts, net
	Terminal        bool      // stdin, stdout and stderr are a terminal that `node attach` can type into
	Files           []File    // written before each start
	Folders         []string  // absolute; kept across incarnations, shared with services that name the same

	Needs   []string // services that must be ready before it is started
	Restart Policy
	Stop    Stop
	Ready   *Probe // nil: ready as soon as its program runs
	Alive   *Probe // nil: alive as long as its process runs
	Logs    Logs
	Core    Core
}

// Policy says who may start a service again after it ended by itself.
type Policy string

// The restart policies. Never is for services whose state dies with them:
// nobody but an operator, who asks for a new incarnation by name, starts one
// again, for a fresh process would answer for instances that are gone.
const (
	Never     Policy = "never"
	OnFailure Policy = "on-failure" // unless it exited with status 0
	Always    Policy = "always"
)

// Limits are what a service may use, as its cgroup enforces it (Linux
// Documentation/admin-guide/cgroup-v2.rst). Zero: no limit.
type Limits struct {
	Memory uint64  // bytes: memory.max; more, and the kernel's OOM killer ends the whole service
	CPU    float64 // cores: cpu.max
	PIDs   uint32  // pids.max
}

// Stop says how a service is asked to end, and how long it has for it. What is
// left of its cgroup afterwards is killed.
type Stop struct {
	Signal  syscall.Signal
	Timeout time.Duration
}

// Probe asks a service how it is. Exactly one of Exec, TCP, HTTP, Notify and
// Identity is set.
type Probe struct {
	Exec     []string  // a program, in the service's root and cgroup: status 0 is well
	TCP      string    // host:port that accepts
	HTTP     *HTTP     // that answers 200 to 399
	Notify   bool      // sd_notify: READY=1 for Ready, WATCHDOG=1 within every Interval for Alive
	Identity *Identity // that still knows the instances it was given

	Interval time.Duration // between two looks
	Timeout  time.Duration // of one look
	Deadline time.Duration // Ready: until it is, from the start. Alive: how long it may stay unknown
	Failures int           // Alive: looks in a row that must fail before it is gone; evidence needs one
}

// HTTP is a GET over plain HTTP.
type HTTP struct {
	URL string // http://host:port/path, or http+unix:///socket:/path
}

// Identity asks a service for what it would lose with its process. The answer
// to List is a JSON object whose key "instances" is a list of objects with an
// "id", a "generation" (a count that never falls) and a "state", and whose key
// "server" is a name that the process gave itself at its start. A service that
// answers with another server, or without an instance that it had and nobody
// took from it, has lost its state and is gone, however healthy its process
// looks. An instance that was taken from it stays in the list for a while, with
// the state "stopped", "destroyed" or "failed".
type Identity struct {
	List string // URL as in HTTP
	// Watch is a URL that is answered as soon as anything in the list has
	// changed, and held open until then; empty: there is none. It is only a
	// hint to look at once, and never evidence itself. "?generation=N" is added
	// to it, N being the "generation" at the top of the last list.
	Watch string
}

// File is a file that is rendered before each start.
type File struct {
	Path    string // absolute, in the service's root
	Mode    uint32 // permission bits
	User    string // owner; empty: root
	Content string // text/template; docs/services.md lists what it may use
}

// Logs bounds what a service puts into the node's log.
type Logs struct {
	Rate  uint64 // bytes a second that are kept; the rest is counted. 0: all
	Burst uint64 // bytes that may come at once above it
}

// Core says what is kept of the memory of a service that crashed.
type Core struct {
	Limit  uint64 // bytes of the core in the bundle; 0: none is kept
	Filter uint32 // /proc/PID/coredump_filter (core(5)); 0: the kernel's
}

// Payload is a root file system that comes with the image or lies on the state
// partition, as an OCI image layout or a tar, and is used only if its digest is
// the one that is asked for.
type Payload struct {
	Name   string
	Source string // absolute path, on the node, of the archive or of the folder with the OCI layout
	Digest string // sha256:HEX of the archive, or of the OCI manifest
}
