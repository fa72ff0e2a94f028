package netcfg

import "net/netip"

// ipv6 reads how a link gets addresses by itself: link-local ones, and those
// of router advertisements.
func (c *compiler) ipv6(l *link, m Mapping) {
	l.linkLocal = linkLocal(m.Get("link-local"))
	if v := m.Get("accept-ra"); v.Set() {
		b := v.Bool()
		l.acceptRA = &b
	}
	l.ra = readRA(m.Get("ra-overrides"))

	v := m.Get("ipv6-address-generation")
	l.addrGen = addrGen(v.Enum(string(addrGenByMAC), string(addrGenPrivacy)))
	token := m.Get("ipv6-address-token")
	l.token = readToken(token)
	if v.Set() && token.Set() {
		token.Invalid("excludes ipv6-address-generation")
	}

	if v := m.Get("ipv6-privacy"); v.Set() {
		b := v.Bool()
		l.privacy = &b
	}
	v = m.Get("ipv6-mtu")
	l.ipv6MTU = v.Int(1280, 65535) // RFC 8200, section 5
	if l.mtu != 0 && l.ipv6MTU > l.mtu {
		v.Unsupported("is larger than the link's mtu %d", l.mtu)
	}
}

// linkLocal is whether the link shall have an IPv6 link-local address.
func linkLocal(v Value) bool {
	if !v.Set() {
		return true
	}
	six := false
	for _, item := range v.Sequence() {
		switch item.Enum("ipv4", "ipv6") {
		case "ipv4":
			item.Unsupported("ipv4 %s", unsupported)
		case "ipv6":
			six = true
		}
	}
	return six
}

// readToken is an interface identifier: the lower 64 bits of an address.
func readToken(v Value) netip.Addr {
	if !v.Set() {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(v.Scalar())
	b := a.As16()
	if err != nil || !a.Is6() || a.Zone() != "" || a.IsUnspecified() || [8]byte(b[:8]) != [8]byte{} {
		v.Invalid("wants an interface identifier like ::1a:2b:3c:4d")
		return netip.Addr{}
	}
	return a
}

func readRA(v Value) raOverrides {
	m := v.Mapping(raKeys)
	return raOverrides{useDNS: boolOr(m.Get("use-dns"), true), useDomains: useDomains(m.Get("use-domains"))}
}

func boolOr(v Value, otherwise bool) bool {
	if !v.Set() {
		return otherwise
	}
	return v.Bool()
}

// useDomains is a boolean or `route`: resolv.conf cannot send some domains'
// questions to some servers.
func useDomains(v Value) bool {
	if v.Set() && v.Node().Value == "route" {
		v.Unsupported("route %s", unsupported)
		return false
	}
	return v.Bool()
}
