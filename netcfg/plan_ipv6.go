package netcfg

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
)

// The values of accept_ra, addr_gen_mode and use_tempaddr (Documentation/
// networking/ip-sysctl.rst). 2 accepts router advertisements even when
// forwarding: with 1 the default route dies of old age as soon as something
// turns forwarding on.
const (
	acceptRAOff    = 0
	acceptRAAlways = 2

	genByMAC   = 0 // IN6_ADDR_GEN_MODE_EUI64
	genNone    = 1 // IN6_ADDR_GEN_MODE_NONE
	genPrivacy = 2 // IN6_ADDR_GEN_MODE_STABLE_PRIVACY

	tempAddrOff    = 0
	tempAddrPrefer = 2
)

// ipv6 sets the link's IPv6 settings. The token comes after accept_ra, without
// which the kernel refuses it (inet6_set_iftoken, net/ipv6/addrconf.c).
func (p *planner) ipv6(l *link, d *LinkState) {
	lost := p.lostLinkLocal(l, d)
	switch {
	case !l.wantsIPv6() || !d.DisableIPv6:
	case d.IPv6Held:
		p.wait(l, waitIPv6, noIPv6(d))
	default:
		p.set(d, "disable_ipv6", "0", "1")
		d.DisableIPv6 = false
	}
	switch {
	case l.ipv6MTU == 0 || l.ipv6MTU == d.IPv6MTU:
	case !d.Carrier || d.Settling:
		// With the carrier the kernel sets it to the link's MTU (addrconf_notify,
		// NETDEV_UP and NETDEV_CHANGE), and tells of it: then is the time.
	case l.ipv6MTU > d.MTU:
		p.wait(l, waitIPv6, fmt.Sprintf("its MTU %d is less than the %d of ipv6-mtu", d.MTU, l.ipv6MTU))
	default:
		p.set(d, "ipv6_mtu", fmt.Sprint(l.ipv6MTU), fmt.Sprint(d.IPv6MTU))
	}
	p.sysctl(d, "accept_ra", &d.AcceptRA, l.acceptRA, acceptRAOff, acceptRAAlways)
	p.sysctl(d, "use_tempaddr", &d.UseTempAddr, l.privacy, tempAddrOff, tempAddrPrefer)
	p.token(l, d)
	mode := d.AddrGenMode
	switch p.generation(l, d); {
	case !lost || mode != d.AddrGenMode: // a change of the mode makes one
	case d.IPv6Held:
		p.wait(l, waitIPv6, "the kernel makes no link-local address")
	default:
		p.generate(d, "to have a link-local address")
	}
}

// lostLinkLocal reports whether the link lacks the address that the kernel made
// when its carrier came: somebody deleted it.
func (p *planner) lostLinkLocal(l *link, d *LinkState) bool {
	made := l.linkLocal && d.Up && d.Carrier && !d.Settling && !d.DisableIPv6 && d.AddrGenMode != genNone &&
		d.Name != "lo"
	return made && !slices.ContainsFunc(p.addressesOf[d.Index], func(a AddressState) bool {
		stays := a.Proto != ownProto || l.has(a.Prefix)
		return stays && a.Prefix.Addr().Is6() && a.Prefix.Addr().IsLinkLocalUnicast()
	}) && linkLocalOf(d.MAC).IsValid()
}

// generate makes the kernel make the link-local address, if it is not there,
// which no other setting does without taking IPv6 off the link: any change of
// the mode does (addrconf_sysctl_addr_gen_mode, net/ipv6/addrconf.c).
func (p *planner) generate(d *LinkState, why string) {
	for _, mode := range []int{genNone, d.AddrGenMode} {
		p.do(Op{Verb: OpSet, Link: d.Name, Settings: []Setting{{"addr_gen_mode", fmt.Sprint(mode)}}, Why: why})
	}
}

// sysctl sets what a yes or no of the document wants; nil wants nothing.
func (p *planner) sysctl(d *LinkState, name string, have *int, want *bool, no, yes int) {
	if want == nil {
		return
	}
	value := no
	if *want {
		value = yes
	}
	if *have != value {
		p.set(d, name, fmt.Sprint(value), fmt.Sprint(*have))
		*have = value
	}
}

func (p *planner) token(l *link, d *LinkState) {
	switch {
	case !l.token.IsValid() || l.token == d.Token:
	case d.AcceptRA == acceptRAOff:
		p.wait(l, waitIPv6, "an address token is of no use without accept-ra")
	case d.Kind == string(kindDummy):
		p.wait(l, waitIPv6, "the kernel takes no address token on a dummy device")
	default:
		p.set(d, "token", l.token.String(), tokenString(d.Token))
	}
}

func tokenString(a netip.Addr) string {
	if !a.IsValid() {
		return ""
	}
	return a.String()
}

// generation sets how the kernel makes interface identifiers. A link-local
// address of another making stays when that changes, and the right one comes
// only with a change of the mode or with "up", so both are seen to here.
func (p *planner) generation(l *link, d *LinkState) {
	switch {
	case !l.linkLocal:
		p.genMode(d, genNone)
	case l.addrGen == addrGenByMAC:
		p.genMode(d, genByMAC)
		p.remake(d, func(a netip.Addr) bool { return a == linkLocalOf(d.MAC) })
	case l.addrGen == addrGenPrivacy:
		if d.AddrGenMode != genPrivacy {
			// The secret comes first, and sets the mode with it: the kernel
			// refuses the mode without one (EINVAL).
			p.set(d, "stable_secret", secretOfMachine, "")
			d.AddrGenMode = genPrivacy
		}
		p.remake(d, func(a netip.Addr) bool { return a != linkLocalOf(d.MAC) })
	case d.AddrGenMode == genNone:
		p.genMode(d, genByMAC)
	}
}

// secretOfMachine stands for a secret that is derived from the machine's
// identity and the link's name where it is written, so that it is in no plan,
// no log and no error.
const secretOfMachine = "of this machine"

func (p *planner) genMode(d *LinkState, mode int) {
	if d.AddrGenMode != mode {
		p.set(d, "addr_gen_mode", fmt.Sprint(mode), fmt.Sprint(d.AddrGenMode))
		d.AddrGenMode = mode
	}
}

// remake replaces the link-local addresses that the kernel made otherwise than
// now wanted. The right one first: while a wrong one is there, an interrupted
// plan is made again.
func (p *planner) remake(d *LinkState, right func(netip.Addr) bool) {
	made := func(a AddressState) bool {
		return a.Proto == protoKernelLinkLocal && a.Prefix.Addr().Is6() && a.Prefix.Addr().IsLinkLocalUnicast()
	}
	good, bad := false, false
	for _, a := range p.addressesOf[d.Index] {
		if made(a) {
			good = good || right(a.Prefix.Addr())
			bad = bad || !right(a.Prefix.Addr())
		}
	}
	if !bad || !linkLocalOf(d.MAC).IsValid() {
		return
	}
	if !good {
		p.generate(d, "to have a link-local address of another making")
	}
	p.dropAddresses(d.Index, func(a AddressState) bool {
		gone := made(a) && !right(a.Prefix.Addr())
		if gone {
			p.deleteAddress(a, "it is made in another way than wanted")
		}
		return gone
	})
}

// protoKernelLinkLocal is IFAPROT_KERNEL_LL (include/uapi/linux/if_addr.h).
const protoKernelLinkLocal = 3

// linkLocalOf is the link-local address that a MAC makes (RFC 4291, appendix A).
func linkLocalOf(mac string) netip.Addr {
	m, err := net.ParseMAC(mac)
	if err != nil || len(m) != 6 {
		return netip.Addr{}
	}
	return netip.AddrFrom16([16]byte{0xfe, 0x80, 8: m[0] ^ 2, 9: m[1], 10: m[2], 11: 0xff, 12: 0xfe, 13: m[3], 14: m[4], 15: m[5]})
}
