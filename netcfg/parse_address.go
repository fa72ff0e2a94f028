package netcfg

import (
	"net/netip"
	"strings"

	"go.yaml.in/yaml/v3"
)

// readAddress is an address with its prefix length, or a mapping from that to
// its options.
func readAddress(v Value) address {
	a := address{lifetime: forever}
	if n := v.Node(); n.Kind == yaml.MappingNode {
		entries := v.Names().Entries()
		if len(entries) != 1 {
			v.Invalid("wants one address with its options")
			return a
		}
		e := entries[0]
		a.Prefix = prefix(e.Value, e.Key)
		a.readOptions(e.Value.Mapping(addressKeys))
		return a
	}
	a.Prefix = prefix(v, v.Scalar())
	return a
}

func prefix(v Value, s string) netip.Prefix {
	p, err := netip.ParsePrefix(s)
	if err != nil {
		v.Invalid("wants an address with its prefix length, like 192.0.2.1/24 or 2001:db8::1/64")
		return netip.Prefix{}
	}
	if a := p.Addr(); a.IsUnspecified() || a.IsMulticast() || a.Is4In6() {
		v.Unsupported("%s is no address that an interface can have", a)
		return netip.Prefix{}
	}
	return p
}

func (a *address) readOptions(m Mapping) {
	if v := m.Get("label"); v.Set() {
		a.label = v.Scalar()
		switch {
		case !validName(strings.ReplaceAll(a.label, ":", "")) || len(a.label) > 15: // eth0:web is the custom
			v.Invalid("is no label: 1 to 15 bytes without blanks and '/'")
		case a.IsValid() && a.Addr().Is6():
			v.Unsupported("has no meaning: only IPv4 addresses have labels")
		}
	}
	if v := m.Get("lifetime"); v.Set() {
		if v.Enum("forever", "0") == "0" {
			a.preferred = 0
		}
	}
}

// linkAddress is an address, of a link if it is one of a link.
type linkAddress struct {
	link string
	addr netip.Addr
}

// addAddress gives the link an address, unless another has it already or the
// link's MTU cannot carry it.
func (c *compiler) addAddress(l *link, v Value) {
	a := readAddress(v)
	if !a.IsValid() {
		return
	}
	key := linkAddress{addr: a.Addr()}
	if ofItsLink(a.Addr()) {
		key.link = l.id
	}
	if first, dup := c.addresses[key]; dup {
		v.Unsupported("duplicate address %s, first given in line %d", a.Addr(), first.Line())
		return
	}
	if a.Addr().Is6() && l.mtu != 0 && l.mtu < 1280 {
		v.Unsupported("needs an mtu of at least 1280, not %d", l.mtu)
	}
	c.addresses[key] = v
	l.addresses = append(l.addresses, a)
}
