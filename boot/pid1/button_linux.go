package pid1

import (
	"context"
	"encoding/binary"
	"os"
	"path/filepath"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"reveille/boot/proc"
)

const (
	// lookForButtons is how often new input devices are looked for: the
	// button's driver is a module that the agent loads.
	lookForButtons = 5 * time.Second
	// maxButtons bounds the input devices that are looked at.
	maxButtons = 32
)

// Of linux/input.h and linux/input-event-codes.h.
const (
	evKey    = 1
	keyPower = 116
	keyMax   = 0x2ff
	// struct input_event on a 64-bit kernel: two 8-byte times, type, code,
	// value.
	eventSize = 24
)

// watchButtons turns the machine's power button, which QEMU presses with
// system_powerdown and a BMC with "soft power off", into an ordered stop.
func (i *Init) watchButtons(ctx context.Context) {
	known := map[string]bool{}
	for {
		paths, _ := filepath.Glob("/dev/input/event*") // the pattern is right
		for _, path := range paths[:min(len(paths), maxButtons)] {
			if known[path] {
				continue
			}
			if f := openButton(path); f != nil {
				i.info("power button at %s", path)
				go i.readButton(f)
			}
		}
		// A device that went away may come back under its old name.
		clear(known)
		for _, path := range paths {
			known[path] = true
		}
		if !pause(ctx, lookForButtons) {
			return
		}
	}
}

// openButton opens an input device if it has a power key; else nil.
func openButton(path string) *os.File {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // gone again, or no driver behind it
	}
	var keys [keyMax/8 + 1]byte
	// EVIOCGBIT(EV_KEY, len): the keys that it has, a bit each.
	request := uintptr(2<<30 | len(keys)<<16 | 'E'<<8 | (0x20 + evKey))
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(&keys)))
	if errno != 0 || keys[keyPower/8]&(1<<(keyPower%8)) == 0 {
		unix.Close(fd)
		return nil
	}
	return os.NewFile(uintptr(fd), path) // non-blocking: reads wait in the runtime's poller
}

func (i *Init) readButton(f *os.File) {
	defer f.Close()
	buf := make([]byte, 64*eventSize)
	for {
		n, err := f.Read(buf)
		if err != nil || n == 0 {
			return // unplugged
		}
		if pressed(buf[:n]) {
			i.end(proc.Restart{How: proc.PowerOff, Reason: "power button"})
		}
	}
}

// pressed tells whether the power key goes down in a run of input events.
func pressed(events []byte) bool {
	for ; len(events) >= eventSize; events = events[eventSize:] {
		e := events[eventSize-8:]
		if binary.NativeEndian.Uint16(e) == evKey && binary.NativeEndian.Uint16(e[2:]) == keyPower && binary.NativeEndian.Uint32(e[4:]) == 1 {
			return true
		}
	}
	return false
}
