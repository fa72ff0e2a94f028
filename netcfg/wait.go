package netcfg

import "slices"

// waitKind tells the waits apart that the reconciler treats differently.
type waitKind int

const (
	waitNIC       waitKind = iota // no such interface yet
	waitParent                    // a vlan whose link is missing
	waitMatch                     // more interfaces than the wish can be given to
	waitIPv6                      // the kernel has no IPv6 on the link
	waitDAD                       // the kernel still checks an address
	waitDuplicate                 // the check failed
	waitSource                    // a route's source address is not usable yet
	waitNoSource                  // nobody here has it
	waitCarrier                   // no carrier
	waitDriver                    // the driver cannot do it
	waitSetting                   // a kernel setting that is missing or refused
	waitLeaseSoon                 // a DHCP server was asked a moment ago
	waitLease                     // no DHCP server answers as it should
)

type wait struct {
	kind waitKind
	Wait
}

func (p *planner) wait(l *link, kind waitKind, reason string) {
	p.waitFor(l, kind, Wait{Reason: reason})
}

func (p *planner) waitFor(l *link, kind waitKind, what Wait) {
	what.Link = l.id
	if b := p.masters[l.id]; l.optional || b != nil && b.optional {
		what.Optional = true
	}
	if kind.ofStatic() && slices.Contains(l.optionalAddresses, "static") {
		what.Optional = true
	}
	w := wait{kind, what}
	w.Passing = w.passing()
	if !p.said[w] {
		p.said[w] = true
		p.waits = append(p.waits, w)
	}
}

// plan is Plan together with what no operation can bring.
func plan(want *Config, have State) ([]Op, []wait) {
	p := planned(want, have)
	return p.ops, p.waits
}

func planned(want *Config, have State) *planner {
	p := newPlanner(want, have)
	p.run()
	return p
}

func plainWaits(waits []wait) []Wait {
	out := make([]Wait, len(waits))
	for i, w := range waits {
		out[i] = w.Wait
	}
	return out
}

// ofStatic reports whether the wait is for an address of the document, or for
// what needs one.
func (k waitKind) ofStatic() bool {
	return k == waitDAD || k == waitDuplicate || k == waitSource || k == waitNoSource
}

// comes reports whether the wait may end by itself while somebody waits.
func (w wait) comes() bool {
	return w.passing() || !w.Optional && (w.kind == waitLease || w.kind == waitCarrier)
}

// passing reports whether the wait ends by itself within seconds.
func (w wait) passing() bool {
	return w.kind == waitDAD || w.kind == waitSource || w.kind == waitLeaseSoon
}
