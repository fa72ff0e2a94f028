package netcfg

import (
	"maps"
	"slices"
	"time"
)

// The kernel may undo at once what was written to a link's IPv6 settings: with
// accept_dad=2 it switches IPv6 off when another machine has the link-local
// address. So such a write is tried again as a failed address is, at once and
// then with pauses, until a link-local address has passed its check.

// triedIPv6 takes down that op, which succeeded, was to bring a link IPv6.
func (r *Reconciler) triedIPv6(op Op, now time.Time) {
	if op.Verb != OpSet || !slices.Contains([]string{"disable_ipv6", "addr_gen_mode"}, op.Settings[0].Name) {
		return
	}
	retry := r.ipv6[op.Link]
	switch {
	case retry == nil:
		retry = &dadRetry{pause: dadRetryFirst}
		r.ipv6[op.Link] = retry
	case now.Before(retry.next): // of the same try
		return
	default:
		retry.pause = min(2*retry.pause, dadRetryMost)
	}
	retry.next = now.Add(retry.pause)
}

// holdIPv6 marks the links whose next try is not due, and forgets those that
// work.
func (r *Reconciler) holdIPv6(have *State, now time.Time) {
	if len(r.ipv6) == 0 {
		return
	}
	checked := map[int]bool{}
	for _, a := range have.Addresses {
		if a.Prefix.Addr().Is6() && a.Prefix.Addr().IsLinkLocalUnicast() && !a.Tentative && !a.DADFailed {
			checked[a.Link] = true
		}
	}
	tried := maps.Clone(r.ipv6)
	clear(r.ipv6)
	for i := range have.Links {
		d := &have.Links[i]
		if retry := tried[d.Name]; retry != nil && !checked[d.Index] {
			r.ipv6[d.Name] = retry
			d.IPv6Held = now.Before(retry.next)
		}
	}
}
