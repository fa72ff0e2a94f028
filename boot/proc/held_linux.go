package proc

import (
	"fmt"
	"io"
	"net"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// pipeSize is what F_SETPIPE_SZ asks for on a child's output: the largest that
// an unprivileged limit allows (fs.pipe-max-size), so that a burst does not
// make the child wait for init's scheduling.
const pipeSize = 1 << 20

// held is what init holds of a process: the other ends of its standard files,
// and its notify socket.
type held struct {
	child []*os.File // become its stdin, stdout and stderr
	env   []string   // that tells it of the rest

	outR, errR *os.File
	terminal   *terminal // in place of pipes
	notify     *net.UnixConn
}

func hold(spec Spec) (*held, error) {
	h := &held{}
	var err error
	if spec.Terminal {
		err = h.openTerminal()
	} else {
		err = h.openPipes()
	}
	if err == nil && spec.Notify {
		h.notify, err = listenNotify(spec)
		h.env = []string{"NOTIFY_SOCKET=" + notifyAddress(spec)}
	}
	if err != nil {
		closeAll(h.child)
		h.close()
		return nil, err
	}
	return h, nil
}

// close lets go of init's ends.
func (h *held) close() {
	closeAll([]*os.File{h.outR, h.errR})
	if h.terminal != nil {
		h.terminal.master.Close()
	}
	if h.notify != nil {
		h.notify.Close()
	}
}

func (h *held) openTerminal() error {
	t, tty, err := newTerminal()
	if err != nil {
		return err
	}
	h.terminal, h.child = t, []*os.File{tty, tty, tty}
	return nil
}

func (h *held) openPipes() error {
	null, err := os.Open(os.DevNull)
	if err != nil {
		return err
	}
	h.child = append(h.child, null)
	for _, mine := range []**os.File{&h.outR, &h.errR} {
		r, w, err := os.Pipe()
		if err != nil {
			return fmt.Errorf("make pipe: %w", err)
		}
		*mine, h.child = r, append(h.child, w)
		// Refused by a lower system limit: then the pipe stays at 64 KiB,
		// which is slower under a burst and otherwise the same, ignoring.
		_, _ = unix.FcntlInt(w.Fd(), unix.F_SETPIPE_SZ, pipeSize)
	}
	return nil
}

func (h *held) drain(out Output, done chan<- struct{}) {
	defer close(done)
	if h.terminal != nil {
		h.terminal.drain(out.Stdout)
		return
	}
	var both sync.WaitGroup
	both.Go(func() { drain(h.outR, out.Stdout) })
	both.Go(func() { drain(h.errR, out.Stderr) })
	both.Wait()
}

func drain(r *os.File, read func(io.Reader)) {
	defer r.Close()
	read(r)
	_, _ = io.Copy(io.Discard, r) // nothing is left, or nobody to tell
}
