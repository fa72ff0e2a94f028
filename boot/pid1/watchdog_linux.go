package pid1

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

const (
	watchdogDevice = "/dev/watchdog0"
	// watchdogTimeout is longer than the worst delay of a goroutine seen on a
	// machine that swaps or prints.
	watchdogTimeout = 60 // seconds
	// feedEvery is a twelfth of that: eleven late turns are forgiven.
	feedEvery = watchdogTimeout / 12 * time.Second
	// seekEvery is how often init looks for one: what hangs before it is armed
	// hangs for ever.
	seekEvery = time.Second
)

// wdiocSetTimeout is WDIOC_SETTIMEOUT, _IOWR('W', 6, int), which x/sys lacks.
const wdiocSetTimeout = 0xc0045706

// watchdog is the hardware that restarts the machine unless it is fed
// (Documentation/watchdog/watchdog-api.rst). It is never closed, and never
// given the magic character that would disarm it.
type watchdog struct {
	fd      int
	asked   int // seconds, and
	seconds int // what the driver made of it
}

// openWatchdog arms the watchdog. os.ErrNotExist: the machine has none, or its
// driver is not loaded yet; EBUSY: somebody else feeds it.
func openWatchdog() (*watchdog, error) { return openWatchdogAt(watchdogDevice) }

func openWatchdogAt(path string) (*watchdog, error) {
	fd, err := unix.Open(path, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	w := &watchdog{fd: fd, seconds: watchdogTimeout}
	w.allow(watchdogTimeout)
	return w, nil
}

// allow asks for another timeout, seconds, if it is another one.
func (w *watchdog) allow(seconds int) {
	if w.asked == seconds {
		return
	}
	w.asked = seconds
	// A driver with a fixed timeout refuses, or one that cannot count so far;
	// then what it has is fed just as well.
	_ = unix.IoctlSetPointerInt(w.fd, wdiocSetTimeout, seconds)
	if s, err := unix.IoctlGetInt(w.fd, unix.WDIOC_GETTIMEOUT); err == nil {
		w.seconds = s
	}
}

// interval is how often it is fed; w may be nil. Some chips count to 10 s only.
func (w *watchdog) interval() time.Duration {
	if w == nil {
		return feedEvery
	}
	return max(min(feedEvery, time.Duration(w.seconds)*time.Second/4), time.Second/2)
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

// feedFor feeds it for d, what each step of init's burial is bounded by. One
// that counts to 10 s would cut its words off.
func (w *watchdog) feedFor(d time.Duration) {
	for end := time.Now().Add(d); w != nil && time.Now().Before(end); {
		_ = w.feed() // if it fails, it restarts the machine, which is what comes next
		<-time.After(w.interval())
	}
}

// keepWatchdog opens the watchdog once its driver is there and feeds it as long
// as the machine deserves it, through an ordered stop to the very end: what
// hangs there, the kernel's own restart included, it ends.
func (i *Init) keepWatchdog() {
	var dog *watchdog
	var opened, fed complaint
	for {
		if dog == nil {
			<-time.After(seekEvery)
			var err error
			if dog, err = openWatchdog(); err != nil {
				if !errors.Is(err, os.ErrNotExist) && opened.anew(err.Error()) {
					i.warn("%v; trying again every %s", err, seekEvery)
				}
				continue
			}
			i.info("watchdog %s armed: restarts the machine after %d s without a sign of life", watchdogDevice, dog.seconds)
		} else {
			<-time.After(dog.interval())
		}
		dog.allow(i.patience())
		if fault := i.fault(); !i.deserves(fault, i.tooSoon(), dog.seconds, &fed) {
			continue
		}
		if err := dog.feed(); err != nil {
			i.warn("%v", err)
		}
	}
}

// deserves tells whether the machine is to live on with a fault, "" being
// none, and says what comes of it; wait is how long it must live on.
func (i *Init) deserves(fault string, wait time.Duration, seconds int, fed *complaint) bool {
	switch {
	case fault == "":
		fed.anew("")
		i.records.doom("")
		return true
	case wait > 0:
		if fed.anew("later " + fault[:10]) { // its first words: the rest counts up
			i.error("%s; restarts did not help: the next one in %s if it goes on", fault, wait.Round(time.Second))
		}
		return true
	}
	if fed.anew(fault[:10]) {
		i.error("%s; the watchdog is not fed and restarts the machine within %d s", fault, seconds)
		i.records.doom(fault)
	}
	return false
}

// complaint is what was said last, and need not be repeated.
type complaint struct{ last string }

// anew tells whether text is another one than the last.
func (c *complaint) anew(text string) bool {
	again := c.last == text
	c.last = text
	return !again
}
