package console

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// OpenKmsg opens /dev/kmsg for ReadKernel, at the oldest record. Reads wait
// in the runtime's poller, not in a system call. The caller closes it.
func OpenKmsg() (*os.File, error) {
	fd, err := unix.Open("/dev/kmsg", unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open /dev/kmsg: %w", err)
	}
	return os.NewFile(uintptr(fd), "/dev/kmsg"), nil
}

// TamePrintk keeps the kernel from writing to consoles by itself (console
// level 1: emergencies only; a panic raises it again) and lifts the rate
// limit on what processes write to /dev/kmsg. /proc must be mounted.
func TamePrintk() error {
	if err := os.WriteFile("/proc/sys/kernel/printk", []byte("1"), 0); err != nil {
		return fmt.Errorf("lower console log level: %w", err)
	}
	// Without the line end the kernel refuses the word.
	if err := os.WriteFile("/proc/sys/kernel/printk_devkmsg", []byte("on\n"), 0); err != nil {
		return fmt.Errorf("lift limit of /dev/kmsg: %w", err)
	}
	return nil
}
