package console

// Port is an open console device. No call may wait: a device that cannot
// take more answers a short count, or 0 and EAGAIN. Only the console's own
// writer goroutine calls it, so a driver that blocks all the same stops
// nobody else.
type Port interface {
	// Write gives bytes to the device; n may be less than len(p).
	Write(p []byte) (n int, err error)
	// Queued is the number of bytes accepted and not yet sent (TIOCOUTQ).
	Queued() (int, error)
	// Flush throws those bytes away (TCOFLUSH).
	Flush() error
	Close() error
}

// Keeper is a Port whose settings others may change: Keep restores them and
// says whether it had to.
type Keeper interface {
	Keep() (changed bool, err error)
}

// Kicker is a Port whose transmitter may sleep though it has work: a UART that
// lost an interrupt waits for it for ever. Kick has it begin again, and does no
// harm to one that really cannot send.
type Kicker interface{ Kick() error }

// Attacher is a Port that the kernel may print to by itself. Attach(false)
// takes it from the kernel; Attach(true) gives it back if the kernel had it.
// Unlike a Port's other calls it may block, and is called from a goroutine
// of its own.
type Attacher interface{ Attach(on bool) error }

// Kind is what sort of device a console is.
type Kind uint8

const (
	Serial     Kind = iota // a UART: has a speed, may stall
	Hypervisor             // hvc: the hypervisor takes or drops, never stalls
	Screen                 // a virtual terminal: tty0, tty1
)

func (k Kind) String() string {
	return [...]string{"serial", "hypervisor", "screen"}[min(k, Screen)]
}

// Spec names a console to open.
type Spec struct {
	Name  string   // "ttyS0"
	Kind  Kind     // decides pace and settings
	Baud  int      // bits per second; 0: as the device stands
	Found []string // where it was found: "cmdline", "consoles", "SPCR", "reveille.console"
}

// maxRate is the most that a console is given, in bytes per second. A
// character on a serial line is 10 bits: start, 8 data, stop.
func (s Spec) maxRate(baud int) float64 {
	switch {
	case s.Kind != Serial:
		return 64 << 10 // a screenful of scrolling a frame; hvc is a memory copy
	case baud > 0:
		return float64(baud) / 10
	default:
		return 11520 // 115200 baud, what almost every BMC uses
	}
}
