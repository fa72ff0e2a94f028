package netcfg

import (
	"cmp"
	"net/netip"
	"slices"
)

// linkRoutes makes the link's wanted routes be there and removes ours that are
// not wanted. On-link routes come first, because gateways are found through
// them.
func (p *planner) linkRoutes(l *link, index int) {
	d := p.link(index)
	routes := l.routes
	if !slices.IsSortedFunc(routes, firstOnLink) {
		routes = slices.Clone(routes)
		slices.SortStableFunc(routes, firstOnLink)
	}
	for _, r := range routes {
		if r.To.Addr().Is6() && d.lacksIPv6() {
			p.wait(l, waitIPv6, noIPv6(d))
			continue
		}
		p.route(l, d, r)
	}
}

func firstOnLink(a, b Route) int {
	return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(b.To.Bits(), a.To.Bits()))
}

func rank(r Route) int {
	if r.Via.IsValid() {
		return 1
	}
	return 0
}

func (p *planner) route(l *link, d *LinkState, want Route) {
	index, name := d.Index, d.Name
	if want.refuses() {
		index, name = 0, ""
	}
	key := want.key()
	p.keep[key] = RouteState{Link: index, Route: want}
	held := p.routes[key]
	if slices.ContainsFunc(held, func(h RouteState) bool { return h.Link == index && h.serves(want) }) {
		return
	}
	if want.From.IsValid() && !p.canBe(want.From) {
		need := "the route to " + want.where() + " needs the address " + want.From.String()
		if p.has(want.From, func(AddressState) bool { return true }) {
			p.wait(l, waitSource, need)
		} else {
			p.wait(l, waitNoSource, need+", which this machine does not have")
		}
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
			same := h.Link == index && h.Via == want.Via
			if same {
				p.deleteRoute(h, "the kernel takes no second one with this next hop")
			}
			return same
		})
	}
	why := ""
	if verb == OpReplaceRoute {
		why = "another route has its place"
	}
	p.do(Op{Verb: verb, Link: name, Route: want, Why: why})
	p.routes[want.key()] = held
	p.addRoute(RouteState{Link: index, Proto: ownProto, Route: want})
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

func (p *planner) deleteRoute(r RouteState, why string) {
	op := Op{Verb: OpDeleteRoute, Route: r.Route, Proto: r.Proto, Why: why}
	if d := p.link(r.Link); d != nil {
		op.Link = d.Name
	}
	p.do(op)
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
				p.deleteAddress(a, "the document does not have it")
			}
		}
	}
	for _, r := range p.have.Routes {
		if r.Proto == ownProto && p.keep[r.key()] != (RouteState{Link: r.Link, Route: r.Route}) &&
			slices.Contains(p.routes[r.key()], r) {
			p.deleteRoute(r, "the document does not have it")
		}
	}
	p.retireRules()
}

// rules makes the link's rules be there. One of somebody else that does the
// same is left to its owner.
func (p *planner) rules(l *link) {
	for _, want := range l.rules {
		if !p.ruled[want] {
			p.do(Op{Verb: OpAddRule, Rule: want})
			p.ruled[want] = true
		}
	}
}

// ofAnyPriority is the rule as a document has it that leaves the priority to the
// kernel.
func (r Rule) ofAnyPriority() Rule {
	r.Priority = -1
	return r
}

// retireRules removes rules of ours that the document does not have, after all
// new ones are in place.
func (p *planner) retireRules() {
	wanted := map[Rule]bool{}
	for i := range p.want.links {
		for _, r := range p.want.links[i].rules {
			wanted[r] = true
		}
	}
	for _, h := range p.have.Rules {
		if h.Proto == ownProto && !wanted[h.Rule] && !wanted[h.ofAnyPriority()] {
			p.do(Op{Verb: OpDeleteRule, Rule: h.Rule, Why: "the document does not have it"})
		}
	}
}
