// Package rack is a controller on this machine and nodes in QEMU, driven as an
// operator drives them: through the `reveille` command and nothing else. The
// end-to-end tests, `make demo` and `make bench` all stand on it.
package rack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"time"

	"reveille/boot/cluster/operator"
	"reveille/images/bench"
)

// Options says where the product is; see `make image`.
type Options struct {
	Build  string // the folder with reveille, vmlinuz and the initramfs
	Faults bool   // nodes boot the initramfs with fault hooks
}

// Rack is a running controller and the nodes made for it.
type Rack struct {
	options Options
	dir     string
	address string // of the controller, on this machine
	ca      string
	server  *exec.Cmd
	nodes   []*Node
}

// New makes a rack whose controller does not run yet.
func New(o Options) (*Rack, error) {
	dir, err := os.MkdirTemp("", "reveille-rack-")
	if err != nil {
		return nil, err
	}
	address, err := FreePort()
	if err != nil {
		return nil, err
	}
	return &Rack{options: o, dir: dir, address: address}, nil
}

// FreePort is an address on loopback that nobody listens on at present.
func FreePort() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", fmt.Errorf("find a free port: %w", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}

// Endpoint is where a node reaches the controller: the host's loopback has
// another address inside.
func (r *Rack) Endpoint() string {
	_, port, _ := net.SplitHostPort(r.address)
	return net.JoinHostPort(bench.HostIPv4, port)
}

var ready = regexp.MustCompile(`controller ready listen=\S+ ca=(sha256:[0-9a-f]{64})`)

// StartController runs the controller until it serves. Stopped and started
// again, it is the same controller.
func (r *Rack) StartController(ctx context.Context) error {
	errFile, err := os.OpenFile(filepath.Join(r.dir, "controller.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	defer errFile.Close()
	cmd := exec.Command(r.Program(), "controller", "run",
		"--data", filepath.Join(r.dir, "controller"), "--listen", r.address, "--advertise", r.Endpoint())
	out := &firstLine{got: make(chan string, 1)}
	cmd.Stdout, cmd.Stderr = out, errFile
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start controller: %w", err)
	}
	r.server = cmd
	select {
	case line := <-out.got:
		m := ready.FindStringSubmatch(line)
		if m == nil {
			return fmt.Errorf("start controller: it said %q", line)
		}
		r.ca = m[1]
		return nil
	case <-ctx.Done():
		return fmt.Errorf("start controller: %w; its log: %s", ctx.Err(), r.ControllerLog())
	}
}

// ControllerLog is the end of what the controller logged.
func (r *Rack) ControllerLog() string {
	log, _ := os.ReadFile(filepath.Join(r.dir, "controller.log")) // no log says as much
	return string(log[max(0, len(log)-2000):])
}

// StopController ends the controller as a power cut would.
func (r *Rack) StopController() {
	if r.server == nil {
		return
	}
	_ = r.server.Process.Kill() // it may have ended by itself
	_ = r.server.Wait()
	r.server = nil
}

// Close ends everything and removes what it left on disk.
func (r *Rack) Close() error {
	var first error
	for _, n := range r.nodes {
		if err := n.Close(); err != nil && first == nil {
			first = err
		}
	}
	r.StopController()
	if err := os.RemoveAll(r.dir); err != nil && first == nil {
		first = err
	}
	return first
}

// Program is the operator's command.
func (r *Rack) Program() string { return filepath.Join(r.options.Build, "reveille") }

// Operator runs the operator's command and returns what it prints.
func (r *Rack) Operator(ctx context.Context, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, r.Program(), r.OperatorArgs(args...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return out, fmt.Errorf("reveille %s: %w: %s", strings.Join(args, " "), err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

// OperatorArgs are args for Program, as the operator of this rack.
func (r *Rack) OperatorArgs(args ...string) []string {
	return append([]string{"--context", filepath.Join(r.dir, "controller", "operator.yaml")}, args...)
}

// Ticket makes a ticket for one enrolment.
func (r *Rack) Ticket(ctx context.Context) (string, error) {
	var t operator.Ticket
	err := r.ask(ctx, &t, "ticket", "create")
	return t.Ticket, err
}

// View is a node as `node list -o json` shows it.
type View = operator.Node

// List is what the controller knows of its nodes.
func (r *Rack) List(ctx context.Context) (nodes []View, err error) {
	return nodes, r.ask(ctx, &nodes, "node", "list")
}

func (r *Rack) ask(ctx context.Context, answer any, args ...string) error {
	out, err := r.Operator(ctx, append(args, "-o", "json")...)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(out, answer); err != nil {
		return fmt.Errorf("read the answer of reveille %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// poll is how often a rack looks for a change; each look is a process.
const poll = 300 * time.Millisecond

// WaitFor returns the node's view once ok says yes to it.
func (r *Rack) WaitFor(ctx context.Context, name string, ok func(View) bool) (View, error) {
	var last View
	for {
		nodes, err := r.List(ctx)
		if err != nil && ctx.Err() == nil {
			return last, err
		}
		for _, v := range nodes {
			if v.Name == name {
				last = v
			}
		}
		if last.Name != "" && ok(last) {
			return last, nil
		}
		select {
		case <-ctx.Done():
			return last, fmt.Errorf("wait for %s: %w; last seen: %+v", name, context.Cause(ctx), last)
		case <-time.After(poll):
		}
	}
}

// firstLine hands over the first line written to it.
type firstLine struct {
	got  chan string
	line []byte
	done bool
}

func (f *firstLine) Write(p []byte) (int, error) {
	if !f.done {
		f.line = append(f.line, p...)
		if line, _, ok := bytes.Cut(f.line, []byte{'\n'}); ok {
			f.done = true
			f.got <- string(line)
		}
	}
	return len(p), nil
}
