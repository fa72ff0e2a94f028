package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"syscall"
)

// process is a child that does not outlive us.
type process struct {
	name string
	pid  int
	done chan struct{} // closed when it has ended
	err  error         // how, valid after done

	stderr lastBytes
}

// start runs a program with files as its descriptors 3, 4, ...; they are closed
// here whatever happens.
func start(program string, args []string, files ...*os.File) (*process, error) {
	p := &process{name: program, done: make(chan struct{})}
	cmd := exec.Command(program, args...)
	cmd.ExtraFiles = files
	cmd.Stderr = &p.stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	started := make(chan error)
	go func() {
		// The death signal comes when the thread that forked ends, not the process:
		// this one stays until the child is gone (prctl(2), PR_SET_PDEATHSIG).
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		for _, f := range files {
			f.Close()
		}
		if err == nil {
			p.pid = cmd.Process.Pid
		}
		started <- err
		if err == nil {
			p.err = cmd.Wait()
			close(p.done)
		}
	}()
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	return p, nil
}

// neverStarted stands for a process before there is one.
func neverStarted() *process {
	p := &process{done: make(chan struct{}), err: errors.New("never started")}
	close(p.done)
	return p
}

// kill ends the process at once and waits for it.
func (p *process) kill() error {
	select {
	case <-p.done:
		return nil
	default:
	}
	if err := syscall.Kill(p.pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("kill %s: %w", p.name, err)
	}
	<-p.done
	return nil
}

// ended says how the process ended, with the last it wrote to stderr; call it
// after done.
func (p *process) ended() string {
	how := "exit status 0"
	if p.err != nil {
		how = p.err.Error()
	}
	if said := p.stderr.String(); said != "" {
		how += ": " + said
	}
	return how
}

// lastBytes keeps the end of what is written to it.
type lastBytes struct {
	mu  sync.Mutex
	buf []byte
}

func (l *lastBytes) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.buf = append(l.buf, b...)
	l.buf = bytes.Clone(l.buf[max(0, len(l.buf)-tailSize):])
	return len(b), nil
}

func (l *lastBytes) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.TrimSpace(string(l.buf))
}
