package supervise

import (
	"fmt"
	"slices"
	"time"
)

const (
	// firstBackoff is the pause before the first restart: most causes are a
	// peer or a device that is there a moment later. It doubles up to
	// lastBackoff, so that an operator who has cured the cause need not wait.
	firstBackoff = time.Second
	lastBackoff  = time.Minute
	// Failures older than window do not count, and none does once a service
	// has run for stable: then the next is a first one.
	window = 10 * time.Minute
	stable = 5 * time.Minute
	// manyFails in a window, which the pauses spread over four minutes, say
	// that another try now helps nobody: it is held, and tried again after
	// cooldown.
	manyFails = 10
	cooldown  = 10 * time.Minute
	// needsGrace is how long after the loss of a need an end is still blamed on
	// that: clients give up a connection within some seconds.
	needsGrace = 10 * time.Second
	// killBound is how long a killed process may take to be gone: the kernel
	// needs milliseconds, and a second or two to free the memory of a large
	// one. Longer is a process in D state.
	killBound = 5 * time.Second
	killAgain = 10 * time.Second
	// buryAgain is how often remains are tried to be removed.
	buryAgain = 10 * time.Second
)

// fail counts a failure and lets some time pass until the next start.
func (m *Machine) fail(u *unit, now time.Duration) {
	if u.Started != 0 && now-u.Started >= stable {
		u.Fails = nil
	}
	u.Fails = slices.DeleteFunc(u.Fails, func(at time.Duration) bool { return now-at >= window })
	u.Fails = append(u.Fails, now)
	n := len(u.Fails)
	if n >= manyFails {
		m.enter(u, now, Held, fmt.Sprintf("%d failures in %s, the last: %s", n, window, u.End.Why))
		u.Until = now + cooldown
		m.say(u, Error, fmt.Sprintf("held: %s; next try in %s%s", u.Reason, cooldown, m.waiters(u)))
		return
	}
	pause := min(firstBackoff<<(n-1), lastBackoff)
	m.enter(u, now, Backoff, u.End.Why)
	u.Until = now + pause
	m.say(u, Warn, fmt.Sprintf("%s; failure %d, next try in %s", u.Reason, n, pause))
}

// waiters names who waits for a service that is held.
func (m *Machine) waiters(u *unit) string {
	var names []string
	for _, w := range m.inOrder() {
		if slices.Contains(w.wish.Needs, u.Service) {
			names = append(names, w.Service)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "; it is needed by " + few(names)
}
