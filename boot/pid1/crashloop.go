package pid1

import "time"

const (
	// loopDeaths within loopWindow are a crash loop: with restarts after 0.5 s
	// to 30 s it is reached after two to three minutes, and a bug that strikes
	// once a minute reaches it too.
	loopDeaths = 10
	loopWindow = 10 * time.Minute
)

// crashLoop tells when an agent has died too often for restarts to help.
type crashLoop struct{ deaths []time.Duration }

// died takes a death at an uptime, in order, and tells whether it is a loop.
func (c *crashLoop) died(at time.Duration) bool {
	c.deaths = append(c.deaths, at)
	if len(c.deaths) > loopDeaths {
		c.deaths = c.deaths[1:]
	}
	return len(c.deaths) == loopDeaths && at-c.deaths[0] <= loopWindow
}

const (
	// The second forced reboot in a row waits until the machine has been up
	// for firstBackoff, each one after that twice as long.
	firstBackoff = 2 * time.Minute
	lastBackoff  = time.Hour
	// uncounted is what a machine must be up before a reboot that nothing
	// remembers: there is no state partition, or it takes no writes.
	uncounted = time.Minute
)

// dogPatience is what the watchdog gets to wait after so many forced reboots in
// a row, seconds: a machine that hangs as soon as it is up must not be reset
// once a minute for ever. Ten minutes is what the weaker chips can count.
func dogPatience(forced int) int {
	const most = 600
	return min(max(watchdogTimeout, int(earliest(forced)/time.Second)), most)
}

// earliest is the uptime before which the machine must not be rebooted by
// force, after so many forced reboots in a row. A machine that is up for that
// long between two of them makes no storm, whatever makes it die.
func earliest(forced int) time.Duration {
	if forced == 0 {
		return 0
	}
	d := firstBackoff
	for range forced - 1 {
		if d *= 2; d >= lastBackoff {
			return lastBackoff
		}
	}
	return d
}
