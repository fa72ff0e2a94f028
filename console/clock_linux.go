package console

import (
	"time"

	"golang.org/x/sys/unix"
)

// started and startedAt are one moment on two clocks.
var (
	started   = time.Now()
	startedAt = bootClock()
)

// BootTime is the time since the kernel started: the clock of kernel messages,
// near enough. It costs no system call, because a log call reads it under the
// lock of the log, and a thread inside a system call may lose its processor.
// Like the kernel's messages it does not count a suspension, once we run.
func BootTime() time.Duration { return startedAt + time.Since(started) }

// bootClock reads CLOCK_BOOTTIME.
func bootClock() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts); err != nil {
		return 0 // cannot fail on Linux 2.6.39 and later
	}
	return time.Duration(ts.Nano())
}
