package pid1

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"reveille/boot/proc"
	"reveille/console"
)

const (
	// A crash that a device's bad moment caused is cured by the first quick
	// restart; one that repeats must not fill consoles and log.
	firstRestart = 500 * time.Millisecond
	lastRestart  = 30 * time.Second
	// stableAgent is how long an agent must live for its next death to be
	// treated as a first one.
	stableAgent = time.Minute
	// lastWords bounds the wait for what a dead agent's pipes still hold; it
	// is memory already, unless a process it left behind holds them open.
	lastWords = 2 * time.Second
)

// keepAgent runs the agent for as long as the machine runs, or until it has
// died so often that only a restart of the machine is left to try.
func (i *Init) keepAgent(ctx context.Context) {
	delay := firstRestart
	var loop crashLoop
	for n := uint64(1); ; n++ {
		begun := time.Now()
		reason := i.runAgent(ctx, n)
		if ctx.Err() != nil {
			return
		}
		if time.Since(begun) > stableAgent {
			delay = firstRestart
		}
		if !tolerant() && loop.died(console.BootTime()) && i.leaveLoop() {
			return
		}
		i.down(fmt.Sprintf("agent %d ended: %s; starting it again in %s", n, reason, delay))
		if !pause(ctx, delay) {
			return
		}
		if !tolerant() {
			delay = min(delay*2, lastRestart)
		}
	}
}

// leaveLoop restarts the machine out of a crash loop, and tells whether it
// does: not so soon after the last time that it would be a loop of reboots,
// and not if nothing can count those.
func (i *Init) leaveLoop() bool {
	crashed := fmt.Sprintf("the agent crashed %d times within %s", loopDeaths, loopWindow)
	now, wait, err := i.forced.force(console.BootTime())
	switch {
	case err != nil:
		i.error("%s; going on without a reboot: %v", crashed, err)
		return false
	case !now:
		i.error("%s, and so it was before the last reboot; next reboot in %s if it goes on", crashed, wait.Round(time.Second))
		return false
	}
	i.end(proc.Restart{How: proc.Reboot, Reason: crashed, Forced: true})
	return true
}

// forgive ends the count of forced reboots once the agent has lived for longer
// than a crash loop takes.
func (i *Init) forgive(ctx context.Context) {
	for pause(ctx, time.Minute) {
		i.mu.Lock()
		lived := time.Since(i.agentBegun)
		i.mu.Unlock()
		if lived < loopWindow {
			continue
		}
		i.calm(0)
		n, err := i.forced.ask(i.forced.count)
		if err == nil && n > 0 {
			_, err = i.forced.ask(i.forced.put(0))
		}
		if err == nil {
			return
		}
	}
}

// runAgent runs one incarnation to its end, and returns why it ended.
func (i *Init) runAgent(ctx context.Context, incarnation uint64) string {
	words := console.NewCrashCollector(console.DefaultCrashHead, console.DefaultCrashTail, func(line string) {
		i.log.Append(proc.AgentName, console.Warn, line) // it prints nothing there but its end
	})
	before := oomKills()
	p, cause, err := i.liveAgent(incarnation, words)
	if err == nil && cause == "" {
		cause = starved(*p.Exit, oomKills()-before)
	}
	ended := cause
	switch {
	case err != nil: // it never lived
		now := console.BootTime()
		p = proc.Process{Spec: proc.Spec{Name: proc.AgentName, Incarnation: incarnation}, Started: now, Exit: &proc.Exit{Code: -1, At: now}}
		cause, ended = err.Error(), err.Error()
	case cause == "":
		ended = p.Exit.String()
	}
	if ctx.Err() == nil {
		i.publish(p, cause, words)
	}
	return ended
}

// liveAgent starts an incarnation, serves it, and returns once it is dead and
// all it said is in the log and in words. cause is why init ended it, if init
// did. The error is that of the start.
func (i *Init) liveAgent(incarnation uint64, words *console.CrashCollector) (p proc.Process, cause string, err error) {
	pair, err := newAgentSockets()
	if err != nil {
		return p, "", err
	}
	defer pair.close()
	i.born()
	spec := proc.Spec{
		Name:        proc.AgentName,
		Incarnation: incarnation,
		Path:        agentProgram(i.options.Program, incarnation),
		Argv:        i.options.AgentArgs,
		Env:         []string{"REVEILLE_INCARNATION=" + strconv.FormatUint(incarnation, 10), "GOTRACEBACK=all"},
	}
	_, err = i.table.Start(context.Background(), spec, proc.Output{
		Stdout: i.lines(proc.AgentName),
		Stderr: func(r io.Reader) { _, _ = io.Copy(words, r) }, // ends with the pipe
	}, pair.logTheirs, pair.controlTheirs)
	if err != nil {
		return p, "", err
	}
	serving, stop := context.WithCancel(context.Background())
	defer stop()
	logged := make(chan struct{})
	go func() { defer close(logged); i.receiveLog(pair.log) }()
	served := make(chan struct{}) // no request of this agent is done after the next has begun
	go func() {
		defer close(served)
		if err := proc.Serve(serving, pair.control, i.withRecords(i.operations())); err != nil {
			i.warn("control socket: %v", err)
		}
	}()

	alive, dead := context.WithCancel(context.Background())
	hung := make(chan string, 1)
	go func() { hung <- i.endHung(alive, incarnation, words) }()
	p, err = i.table.Wait(context.Background(), proc.AgentName, incarnation)
	dead()
	cause = <-hung
	if err != nil {
		return p, cause, err // cannot be: we hold the row
	}
	drained, cancel := context.WithTimeout(context.Background(), lastWords)
	defer cancel()
	_ = i.table.Drained(drained, proc.AgentName, incarnation) // what is missing then is held by another process
	for _, end := range []chan struct{}{logged, served} {
		select {
		case <-end:
		case <-drained.Done():
		}
	}
	return p, cause, nil
}

// publish puts a dead agent's last words on record, after all it had logged.
// cause is what init knows better than the words tell, empty for nothing.
func (i *Init) publish(p proc.Process, cause string, words *console.CrashCollector) {
	i.mu.Lock()
	stage := cmp.Or(i.progress.Stage, "none yet")
	i.crashes.Count++
	i.heard = time.Now() // what comes next is init's to do
	i.mu.Unlock()
	report := console.Summarise(console.CrashFacts{
		Process:     proc.AgentName,
		Build:       i.options.BuildID,
		Incarnation: int(p.Incarnation),
		Uptime:      p.Exit.At,
		Ran:         p.Exit.At - p.Started,
		Stage:       stage,
		WaitStatus:  p.Exit.String(),
		Cause:       cause,
	}, words.Text())
	report.Publish(i.log)
	i.record(report)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.crashes.Last, i.crashed = report.Reason, report.Summary
}

// lines reads a process's output into the log, line by line.
func (i *Init) lines(origin string) func(io.Reader) {
	return func(r io.Reader) {
		if err := console.Copy(i.log, r, origin, console.Info); err != nil {
			i.warn("read output of %s: %v", origin, err)
		}
	}
}

// receiveLog takes the agent's records in until its end of the socket closes,
// which it does with the process.
func (i *Init) receiveLog(conn net.Conn) {
	buf := make([]byte, console.MaxPacket)
	for {
		n, err := conn.Read(buf)
		if n == 0 || err != nil {
			return
		}
		entry, err := console.DecodePacket(buf[:n])
		if err != nil {
			i.warn("log socket: %v", err)
			continue
		}
		i.log.Add(entry)
	}
}

// agentSockets are the log socket, one packet a record, and the control
// socket, a stream. The agent has its ends as file descriptors 3 and 4.
type agentSockets struct {
	log, control             net.Conn
	logTheirs, controlTheirs *os.File
}

func newAgentSockets() (s agentSockets, err error) {
	if s.log, s.logTheirs, err = socketPair(unix.SOCK_SEQPACKET); err != nil {
		return s, err
	}
	if s.control, s.controlTheirs, err = socketPair(unix.SOCK_STREAM); err != nil {
		s.log.Close()
		s.logTheirs.Close()
		return s, err
	}
	return s, nil
}

func (s agentSockets) close() {
	s.log.Close()
	s.control.Close()
}

func socketPair(kind int) (net.Conn, *os.File, error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, kind|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("make socket pair: %w", err)
	}
	ours, theirs := os.NewFile(uintptr(fds[0]), "agent"), os.NewFile(uintptr(fds[1]), "init")
	defer ours.Close() // FileConn works on a duplicate
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("use socket pair: %w", err), theirs.Close())
	}
	return conn, theirs, nil
}
