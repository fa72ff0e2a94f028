package pid1

import (
	"errors"
	"time"

	"reveille/boot/crash"
	"reveille/console"
)

// judged takes the verdict on the boot before this one in. A reset by the
// hardware watchdog or by a panic of the kernel is a forced reboot too; what
// made it could not count it, so this boot does. It may wait for the disk.
func (i *Init) judged(v crash.Verdict) {
	n, err := i.forced.count()
	if v.Uncounted {
		n++ // without a disk, this boot at least knows of one
		if err == nil {
			err = i.forced.set(n)
		}
	}
	if n > 0 && err != nil && !errors.Is(err, errNoPartition) {
		i.warn("%v, going on: the next boot does not know of this one", err)
	}
	known := int(i.inRow.Load())
	i.calm(n)
	if n > known {
		i.warn("restarts in a row that nobody asked for: %d; the next one not before %s of uptime", n, earliest(n))
	}
}

// calm has the watchdog and a kernel that panics be as patient as so many
// forced reboots in a row ask for.
func (i *Init) calm(forced int) {
	i.inRow.Store(int64(forced))
	for _, s := range panicSetting(i.cmdline(), forced) {
		if err := i.sysctl(s); err != nil {
			i.warn("%v, going on without it", err)
		}
	}
}

// fault is why the watchdog must not be fed at this uptime; empty if nothing is
// wrong. During an ordered stop that is its own steps; each of them has a bound
// and says when it is over.
func (i *Init) fault() string {
	switch {
	case !i.stopping():
		return i.vitals().fault()
	case time.Since(i.begun) > time.Duration(i.stepUntil.Load()):
		return "the ordered stop does not go on"
	}
	return ""
}

func (i *Init) stopping() bool { return i.stepUntil.Load() > 0 }

// tooSoon is how long the machine must still be up until a fault may restart
// it: see earliest. A stop was asked for, and is never too soon.
func (i *Init) tooSoon() time.Duration {
	if i.stopping() {
		return 0
	}
	return max(earliest(int(i.inRow.Load()))-console.BootTime(), 0)
}

// patience is the watchdog's timeout now, seconds.
func (i *Init) patience() int {
	if i.stopping() {
		return watchdogTimeout
	}
	return dogPatience(int(i.inRow.Load()))
}

// stepSlack is what a step of the stop may take over its bound: the slowest
// machine's scheduling.
const stepSlack = 3 * time.Second

// step begins a step of the ordered stop, which is over within d.
func (i *Init) step(d time.Duration) {
	i.stepUntil.Store(int64(time.Since(i.begun) + d + stepSlack))
}
