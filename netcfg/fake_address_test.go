package netcfg

import (
	"cmp"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

func (f *fake) address(l *LinkState, op Op) error {
	p := op.Address
	if p.Addr().Is6() && (l.DisableIPv6 || l.NoIPv6) && op.Verb != OpDeleteAddress {
		return unix.EACCES
	}
	i := slices.IndexFunc(f.state.Addresses, func(a AddressState) bool {
		return a.Link == l.Index && a.Prefix.Addr() == p.Addr() && (a.Prefix == p || p.Addr().Is6() && op.Verb != OpDeleteAddress)
	})
	switch {
	case op.Verb == OpDeleteAddress && i < 0:
		return unix.EADDRNOTAVAIL
	case op.Verb == OpDeleteAddress:
		f.deleteAddress(l, i)
	case op.Verb == OpReplaceAddress && i >= 0:
		f.state.Addresses[i].live(op)
	case i >= 0:
		return unix.EEXIST
	default:
		a := AddressState{Link: l.Index, Prefix: p, Proto: ownProto, Tentative: p.Addr().Is6() && !f.optimistic[l.Index], Label: op.Label}
		a.live(op)
		f.state.Addresses = append(f.state.Addresses, a)
	}
	return nil
}

// live is set_ifa_lifetime (net/ipv4/devinet.c), as a dump tells of it.
func (a *AddressState) live(op Op) {
	a.Preferred, a.Valid, a.Dynamic, a.Deprecated = infinity, infinity, false, false
	if op.Valid != 0 {
		a.Deprecated = op.Preferred == 0
		if op.Valid != infinity {
			a.Preferred, a.Valid, a.Dynamic = op.Preferred, op.Valid, true
		}
	}
}

// deleteAddress takes along what IPv4 derives from an address: the secondary
// addresses of its network, routes that have it as source, and with the link's
// last address all its routes.
func (f *fake) deleteAddress(l *LinkState, i int) {
	gone := f.state.Addresses[i]
	four := gone.Prefix.Addr().Is4()
	same := func(a AddressState) bool {
		return four && a.Link == l.Index && a.Prefix.Masked() == gone.Prefix.Masked()
	}
	primary := slices.IndexFunc(f.state.Addresses, same) == i
	f.state.Addresses = slices.Delete(f.state.Addresses, i, i+1)
	if four && primary {
		f.state.Addresses = slices.DeleteFunc(f.state.Addresses, same)
	}
	last := four && !slices.ContainsFunc(f.state.Addresses, func(a AddressState) bool {
		return a.Link == l.Index && a.Prefix.Addr().Is4()
	})
	f.state.Routes = slices.DeleteFunc(f.state.Routes, func(r RouteState) bool {
		return four && r.To.Addr().Is4() && (r.From == gone.Prefix.Addr() || last && r.Link == l.Index)
	})
	for i := range f.state.Routes {
		if r := &f.state.Routes[i]; !four && r.From == gone.Prefix.Addr() {
			r.From = netip.Addr{}
		}
	}
}

func (f *fake) route(l *LinkState, op Op) error {
	r, index := op.Route, 0
	if l != nil && !r.refuses() {
		index = l.Index
	}
	key := func(h RouteState) bool { return h.key() == r.key() }
	if op.Verb == OpDeleteRoute {
		i := slices.IndexFunc(f.state.Routes, func(h RouteState) bool {
			return h.Link == index && (h.Proto == op.Proto || op.Proto == unix.RTPROT_UNSPEC) && h.Route == r
		})
		if i < 0 {
			return unix.ESRCH
		}
		f.state.Routes = slices.Delete(f.state.Routes, i, i+1)
		return nil
	}
	if index != 0 {
		if err := f.routable(l, r); err != nil {
			return err
		}
	} else if !r.refuses() {
		return unix.ENODEV
	}
	i := slices.IndexFunc(f.state.Routes, key)
	made := RouteState{Link: index, Proto: cmp.Or(op.Proto, ownProto), Route: r}
	switch {
	case r.To.Addr().Is6():
		if slices.ContainsFunc(f.state.Routes, func(h RouteState) bool { return key(h) && h.Link == index && h.Via == r.Via }) {
			return unix.EEXIST
		}
	case i >= 0 && op.Verb == OpReplaceRoute:
		f.state.Routes[i] = made
		return nil
	case i >= 0:
		return unix.EEXIST
	}
	f.state.Routes = append(f.state.Routes, made)
	return nil
}

// routable is fib_check_nh and ip6_route_check_nh: the link is up, the gateway
// is on it, the source is an address of ours that passed DAD.
func (f *fake) routable(l *LinkState, r Route) error {
	if !l.Up && r.Scope != scopeHost {
		return unix.ENETDOWN
	}
	if r.From.IsValid() && !slices.ContainsFunc(f.state.Addresses, func(a AddressState) bool {
		return a.Prefix.Addr() == r.From && !a.Tentative && !a.DADFailed
	}) {
		return unix.EINVAL
	}
	if r.Via.IsValid() && !r.OnLink && !slices.ContainsFunc(f.state.Addresses, func(a AddressState) bool {
		return a.Link == l.Index && a.Prefix.Contains(r.Via)
	}) {
		return unix.EHOSTUNREACH
	}
	return nil
}

// rule is fib_nl_newrule with NLM_F_EXCL and fib_nl_delrule. A rule without a
// priority gets the one before the lowest but the first (fib_default_rule_pref).
func (f *fake) rule(op Op) error {
	r := op.Rule
	i := slices.IndexFunc(f.state.Rules, func(h RuleState) bool { return h.Rule == r || h.ofAnyPriority() == r })
	switch {
	case op.Verb == OpDeleteRule && i < 0:
		return unix.ENOENT
	case op.Verb == OpDeleteRule:
		f.state.Rules = slices.Delete(f.state.Rules, i, i+1)
		return nil
	case r.Priority < 0:
		r.Priority = 32766
		for _, h := range f.state.Rules {
			if h.IPv6 == r.IPv6 {
				r.Priority = min(r.Priority, h.Priority)
			}
		}
		r.Priority--
	case i >= 0:
		return unix.EEXIST
	}
	f.state.Rules = append(f.state.Rules, RuleState{Proto: ownProto, Rule: r})
	return nil
}
