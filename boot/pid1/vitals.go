package pid1

import (
	"fmt"
	"time"
)

// vitals is what must move for the machine to deserve to live: how long ago
// each last did.
type vitals struct {
	loop    time.Duration // since init's loop turned
	agent   time.Duration // since the agent reported, was started, or died
	console time.Duration // that the slowest console writer has been inside one call of its driver
}

const (
	// The loop turns every turnEvery; three turns late is a deadlock.
	maxLoop = 4 * turnEvery
	// A hung agent is dumped, killed and started again: init deals with it
	// within this, or it is init that is broken.
	maxAgent = hungAfter + dumpGrace + 2*lastRestart
	// The longest write ever seen took 18.5 s, non-blocking, on a port that
	// printk was busy with and nobody read.
	maxConsole = time.Minute
)

// fault says why the watchdog must not be fed; empty if nothing is wrong.
func (v vitals) fault() string {
	switch {
	case v.loop > maxLoop:
		return fmt.Sprintf("init's loop has not turned for %s", v.loop.Round(time.Second))
	case v.agent > maxAgent:
		return fmt.Sprintf("no sign of the agent for %s", v.agent.Round(time.Second))
	case v.console > maxConsole:
		return fmt.Sprintf("a console's driver has held its writer for %s", v.console.Round(time.Second))
	}
	return ""
}

// turnEvery is how often init's loop turns when nothing happens.
const turnEvery = 5 * time.Second

// turn takes every lock that init's duties take: if one of them is never given
// back, the loop stands still, and the watchdog sees it.
func (i *Init) turn() {
	i.state()
	i.table.List()
	i.log.Next()
	i.turned.Store(int64(time.Since(i.begun)))
}

// vitals must not wait for what it judges: the loop is judged by an atomic.
// What still takes a lock (the agent's last sign, the consoles') holds the
// watchdog's goroutine if that lock is lost, and so ends the feeding too.
func (i *Init) vitals() vitals {
	v := vitals{
		loop:  time.Since(i.begun) - time.Duration(i.turned.Load()),
		agent: i.silence(),
	}
	for _, s := range i.screens.Stats() {
		v.console = max(v.console, s.Stuck)
	}
	return v
}
