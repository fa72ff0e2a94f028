package proc

import (
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// terminal is init's side of a process's terminal.
type terminal struct {
	master *os.File
	shown  *shown
}

// The size until somebody who looks at it has another.
const (
	defaultRows    = 24
	defaultColumns = 80
)

// newTerminal makes a terminal and opens the side of the process.
func newTerminal() (*terminal, *os.File, error) {
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open /dev/ptmx: %w", err)
	}
	master := os.NewFile(uintptr(fd), "terminal") // non-blocking: it has deadlines
	tty, err := otherSide(fd)
	if err != nil {
		master.Close()
		return nil, nil, fmt.Errorf("make terminal: %w", err)
	}
	t := &terminal{master: master, shown: newShown()}
	if err := t.resize(defaultRows, defaultColumns); err != nil {
		closeAll([]*os.File{master, tty})
		return nil, nil, err
	}
	return t, tty, nil
}

// otherSide opens the side of the process by ioctl_tty(2), and not by its name,
// which needs a mounted devpts.
func otherSide(master int) (*os.File, error) {
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return nil, err
	}
	fd, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC)
	if errno != 0 {
		return nil, errno
	}
	return os.NewFile(fd, "tty"), nil
}

// Read implements io.Reader: what the process writes. That nobody has the other
// side open any more is EIO to Linux, and the end to us.
func (t *terminal) Read(p []byte) (int, error) {
	n, err := t.master.Read(p)
	if errors.Is(err, unix.EIO) {
		err = io.EOF
	}
	return n, err
}

// drain hands over what the process writes, to the end.
func (t *terminal) drain(read func(io.Reader)) {
	both := io.TeeReader(t, t.shown)
	read(both)
	_, _ = io.Copy(io.Discard, both) // nothing is left, or nobody to tell
	t.shown.close()
	t.master.Close()
}

// typePatience is how long a process may leave its input unread.
const typePatience = time.Second

func (t *terminal) take(in Typed) error {
	if in.Rows > 0 && in.Columns > 0 {
		if err := t.resize(in.Rows, in.Columns); err != nil {
			return err
		}
	}
	_ = t.master.SetWriteDeadline(time.Now().Add(typePatience)) // it has them
	if _, err := t.master.Write(in.Data); err != nil {
		if errors.Is(err, os.ErrDeadlineExceeded) {
			return errors.New("the process does not read its input")
		}
		return fmt.Errorf("type: %w", err)
	}
	return nil
}

func (t *terminal) resize(rows, columns uint16) error {
	raw, err := t.master.SyscallConn()
	if err == nil {
		var refused error
		err = raw.Control(func(fd uintptr) {
			refused = unix.IoctlSetWinsize(int(fd), unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: columns})
		})
		if err == nil {
			err = refused
		}
	}
	if err != nil {
		return fmt.Errorf("set size of terminal: %w", err)
	}
	return nil
}
