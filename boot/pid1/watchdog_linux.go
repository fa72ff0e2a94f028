package pid1

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	watchdogDevice = "/dev/watchdog0"
	// watchdogTimeout is longer than a whole ordered stop (18 s) and than the
	// worst delay of a goroutine seen on a machine that swaps or prints.
	watchdogTimeout = 60 // seconds
	// feedEvery is a twelfth of that: eleven late turns are forgiven.
	feedEvery = watchdogTimeout / 12 * time.Second
)

// wdiocSetTimeout is WDIOC_SETTIMEOUT, _IOWR('W', 6, int), which x/sys lacks.
const wdiocSetTimeout = 0xc0045706

// watchdog is the hardware that restarts the machine unless it is fed
// (Documentation/watchdog/watchdog-api.rst). It is never closed, and never
// given the magic character that would disarm it.
type watchdog struct {
	fd      int
	seconds int // what the driver made of watchdogTimeout
}

// openWatchdog arms the watchdog. os.ErrNotExist: the machine has none, or its
// driver is not loaded yet; EBUSY: somebody else feeds it.
func openWatchdog() (*watchdog, error) {
	fd, err := unix.Open(watchdogDevice, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", watchdogDevice, err)
	}
	w := &watchdog{fd: fd, seconds: watchdogTimeout}
	// A driver with a fixed timeout refuses; then that is fed just as well.
	_ = unix.IoctlSetPointerInt(fd, wdiocSetTimeout, watchdogTimeout)
	if s, err := unix.IoctlGetInt(fd, unix.WDIOC_GETTIMEOUT); err == nil {
		w.seconds = s
	}
	return w, nil
}

// feed restarts the count; w may be nil.
func (w *watchdog) feed() error {
	if w == nil {
		return nil
	}
	if _, err := unix.Write(w.fd, []byte{0}); err != nil {
		return fmt.Errorf("feed watchdog: %w", err)
	}
	return nil
}

// keepWatchdog opens the watchdog once its driver is there and feeds it as
// long as the machine deserves it. At an ordered stop ctx ends: it is fed a
// last time, and if the stop hangs, it ends it.
func (i *Init) keepWatchdog(ctx context.Context) {
	var dog *watchdog
	opened, fed := complaint{}, complaint{}
	for pause(ctx, feedEvery) {
		if dog == nil {
			var err error
			if dog, err = openWatchdog(); err != nil {
				if !errors.Is(err, os.ErrNotExist) && opened.anew(err.Error()) {
					i.warn("%v; trying again every %s", err, feedEvery)
				}
				continue
			}
			i.info("watchdog %s armed: restarts the machine after %d s without a sign of life", watchdogDevice, dog.seconds)
		}
		if fault := i.vitals().fault(); fault != "" {
			if fed.anew(fault[:10]) { // its first words: the rest counts up
				i.error("%s; the watchdog is not fed and restarts the machine within %d s", fault, dog.seconds)
			}
			continue
		}
		fed.anew("")
		if err := dog.feed(); err != nil {
			i.warn("%v", err)
		}
	}
	_ = dog.feed() // the machine stops now, whatever it answers
}

// complaint is what was said last, and need not be repeated.
type complaint struct{ last string }

// anew tells whether text is another one than the last.
func (c *complaint) anew(text string) bool {
	again := c.last == text
	c.last = text
	return !again
}
