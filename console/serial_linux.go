package console

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// tty is a Port on a terminal device.
type tty struct {
	fd     int
	spec   Spec
	sysfs  string       // /sys/class/tty/NAME/console
	kernel bool         // the kernel used it as a console when it was opened
	want   unix.Termios // as read back after we set it
}

// Open opens a console device under dev ("/dev") for spec: non-blocking, not
// as controlling terminal, raw, without flow control, receiver off, and with
// a close that does not wait for output. It may block in the driver (31 s
// while another close drains): it is an Opener, called by Engine.Add's
// goroutine.
func Open(dev string, spec Spec) (Port, error) {
	name := filepath.Join(dev, spec.Name)
	fd, err := unix.Open(name, unix.O_RDWR|unix.O_NONBLOCK|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	t := &tty{fd: fd, spec: spec, sysfs: filepath.Join("/sys/class/tty", spec.Name, "console")}
	if err := t.setup(); err != nil {
		unix.Close(fd)
		return nil, fmt.Errorf("set up %s: %w", name, err)
	}
	used, _ := os.ReadFile(t.sysfs) // absent for hvc and screens
	t.kernel = strings.TrimSpace(string(used)) == "Y"
	return t, nil
}

func (t *tty) setup() error {
	if t.spec.Kind == Screen {
		return nil // whoever sits at the keyboard needs its settings
	}
	if err := t.setSerial(); err != nil {
		return err
	}
	now, err := unix.IoctlGetTermios(t.fd, unix.TCGETS2)
	if err != nil {
		return fmt.Errorf("get terminal settings: %w", err)
	}
	raw := rawTermios(*now, t.spec.Baud)
	// TCSETS2, never its waiting sibling TCSETSW2: that drains first.
	if err := unix.IoctlSetTermios(t.fd, unix.TCSETS2, &raw); err != nil {
		return fmt.Errorf("set terminal settings: %w", err)
	}
	// A driver may refuse parts; what it made of them is what Keep compares.
	now, err = unix.IoctlGetTermios(t.fd, unix.TCGETS2)
	if err != nil {
		return fmt.Errorf("get terminal settings: %w", err)
	}
	t.want = *now
	return nil
}

// rawTermios turns off all that could stop output (XON/XOFF, RTS/CTS, modem
// lines), all processing, and the receiver: line noise and BREAK end in the
// UART. SysRq over serial is decided before that and still works.
func rawTermios(t unix.Termios, baud int) unix.Termios {
	t.Iflag = unix.IGNBRK | unix.IGNPAR
	t.Oflag = 0
	t.Lflag = 0
	t.Cflag &^= unix.CSIZE | unix.PARENB | unix.CRTSCTS | unix.CREAD | unix.HUPCL
	t.Cflag |= unix.CS8 | unix.CLOCAL
	if baud > 0 {
		t.Cflag = t.Cflag&^unix.CBAUD | unix.BOTHER
		t.Ispeed, t.Ospeed = uint32(baud), uint32(baud)
	}
	return t
}

// serialStruct is struct serial_struct of linux/serial.h.
type serialStruct struct {
	Type, Line                          int32
	Port                                uint32
	IRQ, Flags, FIFO, Divisor, BaudBase int32
	CloseDelay                          uint16
	IOType, _                           byte
	Hub6                                int32
	ClosingWait, ClosingWait2           uint16
	IomemBase                           uintptr
	IomemShift                          uint16
	PortHigh                            uint32
	IomapBase                           uint64
}

// closingWaitNone is ASYNC_CLOSING_WAIT_NONE: a close, or our death, does
// not wait 30 s for output that nobody reads.
const closingWaitNone = 65535

var errNoUART = errors.New("no UART behind it")

// setSerial sets closing_wait on a UART. Other ttys have no such thing.
func (t *tty) setSerial() error {
	var s serialStruct
	if err := t.ioctl(unix.TIOCGSERIAL, unsafe.Pointer(&s)); err != nil {
		return nil
	}
	if t.spec.Kind == Serial && s.Type == 0 && s.Port == 0 && s.IomemBase == 0 {
		return errNoUART
	}
	s.ClosingWait = closingWaitNone
	if err := t.ioctl(unix.TIOCSSERIAL, unsafe.Pointer(&s)); err != nil {
		return fmt.Errorf("set closing_wait: %w", err)
	}
	return nil
}

func (t *tty) ioctl(request uint, arg unsafe.Pointer) error {
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(t.fd), uintptr(request), uintptr(arg)); errno != 0 {
		return errno
	}
	return nil
}

// Baud is the speed that the device runs at.
func (t *tty) Baud() int { return int(t.want.Ospeed) }

func (t *tty) Write(p []byte) (int, error) { return unix.Write(t.fd, p) }

func (t *tty) Queued() (int, error) { return unix.IoctlGetInt(t.fd, unix.TIOCOUTQ) }

func (t *tty) Flush() error { return unix.IoctlSetInt(t.fd, unix.TCFLSH, unix.TCOFLUSH) }

// Close throws away what is queued, since a close may wait for it.
func (t *tty) Close() error {
	t.Flush()
	return unix.Close(t.fd)
}

// Keep implements Keeper. Output that somebody stopped (TCOOFF) goes on.
func (t *tty) Keep() (changed bool, err error) {
	if t.spec.Kind == Screen {
		return false, nil
	}
	// Fails only on a device that is going: the next write meets that.
	unix.IoctlSetInt(t.fd, unix.TCXONC, unix.TCOON)
	now, err := unix.IoctlGetTermios(t.fd, unix.TCGETS2)
	if err != nil {
		return false, fmt.Errorf("get terminal settings: %w", err)
	}
	if *now == t.want {
		return false, nil
	}
	want := t.want
	if err := unix.IoctlSetTermios(t.fd, unix.TCSETS2, &want); err != nil {
		return false, fmt.Errorf("restore terminal settings: %w", err)
	}
	return true, nil
}

// Kick implements Kicker. Stopping and starting the output turns the
// transmitter's interrupt off and on (drivers/tty/serial/8250/8250_port.c,
// serial8250_stop_tx and _start_tx), and a UART with room answers that with a
// new one. Another write would not: the driver takes the interrupt for granted
// while it is on.
func (t *tty) Kick() error {
	if err := unix.IoctlSetInt(t.fd, unix.TCXONC, unix.TCOOFF); err != nil {
		return fmt.Errorf("stop output: %w", err)
	}
	if err := unix.IoctlSetInt(t.fd, unix.TCXONC, unix.TCOON); err != nil {
		return fmt.Errorf("start output: %w", err)
	}
	return nil
}

// Attach implements Attacher: /sys/class/tty/NAME/console takes Y and N.
func (t *tty) Attach(on bool) error {
	if !t.kernel {
		return errNotKernel
	}
	word := "N"
	if on {
		word = "Y"
	}
	if err := os.WriteFile(t.sysfs, []byte(word), 0); err != nil {
		return fmt.Errorf("attach %s to the kernel: %w", t.spec.Name, err)
	}
	return nil
}

var errNotKernel = errors.New("the kernel did not use it as a console")
