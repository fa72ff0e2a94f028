package netcfg

import (
	"context"
	"fmt"
	"maps"
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

// failedCheck is an address that another machine has.
type failedCheck struct {
	dadRetry
	asked  bool   // who has it, since the last try
	holder string // its MAC, "" when nobody answered
}

// holdFailed marks the failed addresses whose next try is not due, and counts
// the others as tried now. It forgets those that work or are gone.
func (r *Reconciler) holdFailed(have *State, now time.Time) {
	tried := maps.Clone(r.failures)
	clear(r.failures)
	for i := range have.Addresses {
		a := &have.Addresses[i]
		key := failedAddress{a.Link, a.Prefix}
		retry := tried[key]
		switch {
		case !a.DADFailed && (!a.Tentative || retry == nil):
			continue
		case !a.DADFailed: // checked again
		case retry == nil:
			retry = &failedCheck{dadRetry: dadRetry{pause: dadRetryFirst, next: now.Add(dadRetryFirst)}}
		case now.Before(retry.next):
			a.Held, a.Holder = true, retry.holder
		default:
			retry.asked = false
			retry.pause = min(2*retry.pause, dadRetryMost)
			retry.next = now.Add(retry.pause)
		}
		r.failures[key] = retry
	}
}

// prober asks a link what the kernel does not ask by itself or does not tell.
type prober interface {
	solicitRouters(index int) error
	whoHas(ctx context.Context, l LinkState, addr netip.Addr) (mac string, err error)
}

// askAtOnce bounds the questions of one pass, each of which may take half a
// second: a machine has few addresses, and a link where all are taken has one
// cause.
const askAtOnce = 4

// askHolders asks who has the addresses whose check failed, once for each try,
// when nothing else is left to do. It reports whether it learnt something.
func (r *Reconciler) askHolders(ctx context.Context, net network, have State) bool {
	link, ok := net.(prober)
	if !ok {
		return false
	}
	learnt, asked := false, 0
	for _, a := range have.Addresses {
		failed := r.failures[failedAddress{a.Link, a.Prefix}]
		d := have.link(a.Link)
		if failed == nil || failed.asked || !a.Held || !a.DADFailed || d == nil || asked == askAtOnce {
			continue
		}
		mac, err := link.whoHas(ctx, *d, a.Prefix.Addr())
		if err != nil {
			continue // the link-local address is checked itself, for one; its end is an event
		}
		failed.asked = true
		asked++
		// Without an answer the address is as failed as before.
		if mac != failed.holder {
			failed.holder, learnt = mac, true
		}
	}
	return learnt
}

// duplicate words whose the address is. Our own frames come back through a
// switch that has two ports of ours in one network and not in one aggregate.
func (p *planner) duplicate(a AddressState) string {
	addr := a.Prefix.Addr()
	if a.Holder == "" {
		return fmt.Sprintf("another machine has %s (duplicate address detected)", addr)
	}
	for _, d := range p.links {
		if d.MAC == a.Holder {
			return fmt.Sprintf("%s is answered for by our own %s: a loop, or the address is on both (duplicate address detected)", addr, d.Name)
		}
	}
	return fmt.Sprintf("another machine has %s (duplicate address detected), its MAC is %s", addr, a.Holder)
}

// nextLook is how long until the network is read without an event: a minute,
// or less when a failed address, a finding or an advertised server is due.
func (r *Reconciler) nextLook(now time.Time) time.Duration {
	r.turn.Lock()
	defer r.turn.Unlock()
	least := lookAgain
	if left, some := r.findings.next(now); some {
		least = min(least, left)
	}
	if left, some := r.ra.next(now); some {
		least = min(least, left)
	}
	for _, retry := range r.failures {
		if retry.next.After(now) { // else its check takes long, as without carrier
			least = min(least, retry.next.Sub(now))
		}
	}
	for _, retry := range r.ipv6 {
		if retry.next.After(now) { // else the last pass had nothing to try
			least = min(least, retry.next.Sub(now))
		}
	}
	return least
}
