package console

import (
	"time"

	"golang.org/x/sys/unix"
)

// BootTime is the time since the kernel started, suspend included
// (CLOCK_BOOTTIME): the clock of kernel messages, near enough.
func BootTime() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0 // cannot fail on Linux 2.6.39 and later
	}
	return time.Duration(ts.Nano())
}
