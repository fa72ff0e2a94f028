package netcfg

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

func (p *planner) deleteAddress(a AddressState) {
	if d := p.link(a.Link); d != nil {
		p.do(Op{Verb: OpDeleteAddress, Link: d.Name, Address: a.Prefix})
	}
}

// addresses makes the link's wanted addresses be there, and only there, and
// removes those of ours that are not wanted any more. Foreign ones stay unless
// they are in the way.
func (p *planner) addresses(l *link, index int) {
	d := p.link(index)
	for _, want := range l.addresses {
		if want.Addr().Is6() && d.NoIPv6 {
			p.wait(l, waitIPv6, noIPv6(d))
			continue
		}
		p.address(l, d, want)
	}
	p.dropAddresses(index, func(a AddressState) bool {
		stale := !l.has(a.Prefix) &&
			(a.Proto == ownProto || !l.linkLocal && a.Prefix.Addr().IsLinkLocalUnicast() && a.Prefix.Addr().Is6())
		if stale {
			p.deleteAddress(a)
		}
		return stale
	})
}

func noIPv6(d *LinkState) string {
	if d.MTU < 1280 {
		return fmt.Sprintf("its MTU %d is below the 1280 of IPv6", d.MTU)
	}
	return "the kernel has no IPv6 on it"
}

// address removes whatever has the IP wrongly, then adds it unless it is there.
func (p *planner) address(l *link, d *LinkState, want address) {
	there := false
	for _, index := range slices.Clone(p.holders[want.Addr()]) {
		if index != d.Index && p.isLoopback(index) {
			continue
		}
		p.dropAddresses(index, func(a AddressState) bool {
			if a.Prefix.Addr() != want.Addr() {
				return false
			}
			if index == d.Index && a.Prefix == want.Prefix && !(a.DADFailed && !a.Held) {
				there = true
				p.settled(l, d, want, a)
				return false
			}
			p.deleteAddress(a)
			return true
		})
	}
	if there {
		return
	}
	p.do(want.op(OpAddAddress, d))
	p.addAddress(AddressState{
		Link: d.Index, Prefix: want.Prefix, Proto: ownProto, Tentative: want.Addr().Is6(),
	})
}

// op adds the address or replaces its lifetime.
func (a address) op(verb Verb, d *LinkState) Op {
	op := Op{Verb: verb, Link: d.Name, Address: a.Prefix}
	if a.lifetime != forever {
		op.Preferred, op.Valid = a.preferred, a.valid
	}
	return op
}

// settled gives an address the lifetime that it shall have, in place, and names
// what its use still waits for.
func (p *planner) settled(l *link, d *LinkState, want address, a AddressState) {
	if !want.near(a.left()) {
		p.do(want.op(OpReplaceAddress, d))
	}
	switch {
	case a.DADFailed:
		p.wait(l, waitDuplicate, "another machine has "+a.Prefix.Addr().String()+" (duplicate address detected)")
	case a.Tentative && d.Carrier:
		p.wait(l, waitDAD, a.Prefix.Addr().String()+" is not yet checked for duplicates")
	}
}

// isLoopback spares the addresses that anycast keeps on lo.
func (p *planner) isLoopback(index int) bool {
	d := p.link(index)
	return d != nil && d.Name == "lo"
}

// linkRoutes makes the link's wanted routes be there and removes ours that are
// not wanted. On-link routes come first, because gateways are found through
// them.
func (p *planner) linkRoutes(l *link, index int) {
	d := p.link(index)
	routes := slices.Clone(l.routes)
	slices.SortStableFunc(routes, func(a, b Route) int {
		return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.To.Bits(), a.To.Bits()))
	})
	for _, r := range routes {
		if r.To.Addr().Is6() && d.NoIPv6 {
			p.wait(l, waitIPv6, noIPv6(d))
			continue
		}
		p.route(l, d, r)
	}
}

func rank(r Route) int {
	if r.Via.IsValid() {
		return 1
	}
	return 0
}

func (p *planner) route(l *link, d *LinkState, want Route) {
	p.keep[RouteState{Link: d.Index, Route: want}] = true
	held := p.routes[want.key()]
	if slices.ContainsFunc(held, func(h RouteState) bool { return h.Link == d.Index && h.serves(want) }) {
		return
	}
	if want.From.IsValid() && !p.canBe(want.From) {
		p.wait(l, waitSource, "the route to "+want.where()+" needs the address "+want.From.String())
		return
	}
	verb := OpAddRoute
	if want.To.Addr().Is4() && len(held) > 0 {
		// IPv4 has one place for a destination and metric: who holds it must go.
		verb, held = OpReplaceRoute, held[1:]
	}
	if want.To.Addr().Is6() {
		// IPv6 takes a second next hop beside the first, but not the same one
		// with another source, whoever made that.
		held = slices.DeleteFunc(slices.Clone(held), func(h RouteState) bool {
			same := h.Link == d.Index && h.Via == want.Via
			if same {
				p.deleteRoute(h)
			}
			return same
		})
	}
	p.do(Op{Verb: verb, Link: d.Name, Route: want})
	p.routes[want.key()] = held
	p.addRoute(RouteState{Link: d.Index, Proto: ownProto, Route: want})
}

// serves reports whether the route in the kernel is the wanted one. A foreign
// route that does the same is left to its owner.
func (h RouteState) serves(want Route) bool {
	got := h.Route
	if h.Proto != ownProto && !want.From.IsValid() {
		got.From = netip.Addr{}
	}
	return got == want
}

// canBe reports whether the kernel takes the address as a source now: an IPv6
// address not before its duplicate check.
func (p *planner) canBe(source netip.Addr) bool {
	return p.has(source, func(a AddressState) bool { return !a.Tentative && !a.DADFailed })
}

func (p *planner) deleteRoute(r RouteState) {
	if d := p.link(r.Link); d != nil {
		p.do(Op{Verb: OpDeleteRoute, Link: d.Name, Route: r.Route, Proto: r.Proto})
	}
}

// retire removes what an earlier document had: routes of ours that no link
// wants, after all new ones are in place, and addresses of ours on links that
// this document does not have.
func (p *planner) retire() {
	wanted := map[int]bool{}
	for i := range p.want.links {
		l := &p.want.links[i]
		for _, index := range p.nics[l.id] {
			wanted[index] = true
		}
		if d := p.wanted(l.id); d != nil {
			wanted[d.Index] = true
		}
	}
	for _, d := range p.links {
		for _, a := range p.addressesOf[d.Index] {
			if a.Proto == ownProto && !wanted[d.Index] {
				p.deleteAddress(a)
			}
		}
	}
	for _, r := range p.have.Routes {
		if r.Proto == ownProto && !p.keep[RouteState{Link: r.Link, Route: r.Route}] &&
			slices.Contains(p.routes[r.key()], r) {
			p.deleteRoute(r)
		}
	}
}
