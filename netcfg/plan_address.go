package netcfg

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
)

func (p *planner) deleteAddress(a AddressState, why string) {
	if d := p.link(a.Link); d != nil {
		p.do(Op{Verb: OpDeleteAddress, Link: d.Name, Address: a.Prefix, Why: why})
	}
}

// addresses makes the link's wanted addresses be there, and only there, and
// removes those of ours that are not wanted any more. Foreign ones stay unless
// they are in the way.
func (p *planner) addresses(l *link, index int) {
	d := p.link(index)
	for _, want := range l.addresses {
		if want.Addr().Is6() && d.lacksIPv6() {
			p.wait(l, waitIPv6, noIPv6(d))
			continue
		}
		p.address(l, d, want)
	}
	p.dropAddresses(index, func(a AddressState) bool {
		stale := !l.has(a.Prefix) &&
			(a.Proto == ownProto || !l.linkLocal && a.Prefix.Addr().IsLinkLocalUnicast() && a.Prefix.Addr().Is6())
		if stale {
			p.deleteAddress(a, "the document does not have it")
		}
		return stale
	})
}

// lacksIPv6 reports whether the kernel takes no IPv6 address on the link.
func (d *LinkState) lacksIPv6() bool { return d.NoIPv6 || d.DisableIPv6 }

func noIPv6(d *LinkState) string {
	switch {
	case d.MTU < 1280:
		return fmt.Sprintf("its MTU %d is below the 1280 of IPv6", d.MTU)
	case d.DisableIPv6:
		return "the kernel switched IPv6 off again, as it does with accept_dad=2 when another machine has the link-local address"
	}
	return "the kernel has no IPv6 on it"
}

// address removes whatever has the IP wrongly, then adds it unless it is there.
func (p *planner) address(l *link, d *LinkState, want address) {
	there := false
	for _, index := range slices.Clone(p.holders[want.Addr()]) {
		if index != d.Index && (p.isLoopback(index) || ofItsLink(want.Addr())) {
			continue
		}
		p.dropAddresses(index, func(a AddressState) bool {
			if a.Prefix.Addr() != want.Addr() {
				return false
			}
			if index == d.Index && a.Prefix == want.Prefix && !(a.DADFailed && !a.Held) && a.labelled(want, d.Name) {
				there = true
				p.settled(l, d, want, a)
				return false
			}
			p.deleteAddress(a, a.unlike(want, d))
			return true
		})
	}
	if there {
		return
	}
	op := want.op(OpAddAddress, d)
	if want.endsAfterCheck() {
		op.Preferred, op.Valid = 0, 0
	}
	p.do(op)
	p.addAddress(AddressState{
		Link: d.Index, Prefix: want.Prefix, Proto: ownProto, Tentative: want.Addr().Is6(),
	})
}

// ofItsLink reports whether the address is one of its link alone: another link
// may have the same (RFC 4007, section 5).
func ofItsLink(a netip.Addr) bool { return a.Is6() && a.IsLinkLocalUnicast() }

// unlike says what is wrong with an address that has the wanted IP.
func (a AddressState) unlike(want address, d *LinkState) string {
	switch {
	case a.Link != d.Index:
		return d.Name + " shall have it"
	case a.Prefix != want.Prefix:
		return "shall be " + want.Prefix.String()
	case a.DADFailed:
		return "failed its duplicate address check"
	}
	return "its label shall be " + cmp.Or(want.label, d.Name)
}

// labelled reports whether the address has its label. One that the wish does
// not mention is left to an address that is not ours.
func (a AddressState) labelled(want address, name string) bool {
	if want.Addr().Is6() || want.label == "" && a.Proto != ownProto {
		return true
	}
	return a.Label == want.label || a.Label == "" && want.label == name
}

// op adds the address or replaces its lifetime.
func (a address) op(verb Verb, d *LinkState) Op {
	op := Op{Verb: verb, Link: d.Name, Address: a.Prefix, Label: a.label}
	if a.lifetime != forever {
		op.Preferred, op.Valid = a.preferred, a.valid
	}
	return op
}

// endsAfterCheck reports whether the address gets its lifetime only when its
// duplicate check has passed. The kernel deletes an IPv6 address that ends if
// another machine has it, and nobody would hear why; one that does not end stays
// and is marked (addrconf_dad_stop, net/ipv6/addrconf.c).
func (a address) endsAfterCheck() bool { return a.Addr().Is6() && a.valid != infinity }

// settled gives an address the lifetime that it shall have, in place, and names
// what its use still waits for.
func (p *planner) settled(l *link, d *LinkState, want address, a AddressState) {
	checked := !a.Tentative && !a.DADFailed
	if !want.near(a.left()) && (checked || !want.endsAfterCheck()) {
		op := want.op(OpReplaceAddress, d)
		op.Why = "its lifetime differs"
		p.do(op)
	}
	switch {
	case a.DADFailed:
		p.wait(l, waitDuplicate, p.duplicate(a))
	case a.Tentative && d.Carrier:
		p.wait(l, waitDAD, a.Prefix.Addr().String()+" is not yet checked for duplicates")
	}
}

// isLoopback spares the addresses that anycast keeps on lo.
func (p *planner) isLoopback(index int) bool {
	d := p.link(index)
	return d != nil && d.Name == "lo"
}
