package netcfg

import (
	"net/netip"
	"time"
)

// A duplicate address is tried again, because the other holder may have gone:
// the kernel never does by itself. The first retry is at once, for an address
// that an earlier stage left failed; then 10 s, doubling to 5 minutes, which
// is how long a switch may remember a wrong port.
const (
	dadRetryFirst = 10 * time.Second
	dadRetryMost  = 5 * time.Minute
)

type failedAddress struct {
	link   int
	prefix netip.Prefix
}

type dadRetry struct {
	pause time.Duration
	next  time.Time
}

// holdFailed marks the failed addresses whose next try is not due, and counts
// the others as tried now.
func (r *Reconciler) holdFailed(have *State, now time.Time) {
	for i := range have.Addresses {
		a := &have.Addresses[i]
		key := failedAddress{a.Link, a.Prefix}
		switch retry := r.failures[key]; {
		case !a.DADFailed:
			if !a.Tentative {
				delete(r.failures, key)
			}
		case retry == nil:
			r.failures[key] = &dadRetry{pause: dadRetryFirst, next: now.Add(dadRetryFirst)}
		case now.Before(retry.next):
			a.Held = true
		default:
			retry.pause = min(2*retry.pause, dadRetryMost)
			retry.next = now.Add(retry.pause)
		}
	}
}

// nextLook is how long until the network is read without an event: a minute,
// or less when a failed address or a finding is due.
func (r *Reconciler) nextLook(now time.Time) time.Duration {
	r.turn.Lock()
	defer r.turn.Unlock()
	least := lookAgain
	if left, some := r.findings.next(now); some {
		least = min(least, left)
	}
	for _, retry := range r.failures {
		least = min(least, max(retry.next.Sub(now), 0))
	}
	return least
}
