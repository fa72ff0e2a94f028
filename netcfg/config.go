package netcfg

import (
	"net/netip"
	"slices"
)

// Config is a compiled network document. Only Parse and ParseNode make one, so
// every reference in it resolves and every value is one that the kernel takes.
type Config struct {
	links []link // ethernets, dummy-devices, bonds, vlans: parents before children
	dns   dns
}

// deviceKind is the kernel's IFLA_INFO_KIND of a device that we create; ""
// stands for a device that exists without us.
type deviceKind string

const (
	kindNIC   deviceKind = ""
	kindDummy deviceKind = "dummy"
	kindBond  deviceKind = "bond"
	kindVLAN  deviceKind = "vlan"
)

// link is one wanted device.
type link struct {
	id   string
	kind deviceKind

	match *match // NICs only; nil means the one named so
	name  string // the name it shall have; "" for a matched NIC that keeps its own

	mac       string // "" leaves it
	mtu       int    // bytes, 0 leaves it
	optional  bool   // nobody waits for it
	acceptRA  *bool  // nil leaves the kernel's setting
	linkLocal bool   // IPv6 link-local address wanted (netplan's default)
	addresses []netip.Prefix
	routes    []Route

	bond bond // kindBond only
	vlan vlan // kindVLAN only
}

// wantsIPv6 reports whether IPv6 must be enabled on the link.
func (l link) wantsIPv6() bool {
	return l.acceptRA != nil && *l.acceptRA ||
		slices.ContainsFunc(l.addresses, func(p netip.Prefix) bool { return p.Addr().Is6() })
}

type bond struct {
	ports   []string // ids, in the order in which they are enslaved
	primary string   // id, "" for none
	options BondOptions
}

type vlan struct {
	id     int
	parent string // id
}

type dns struct {
	servers []netip.Addr
	search  []string
}

// Modules is the kernel modules that the document's devices need, in no
// particular order of dependency. Load bonding with max_bonds=0 and dummy with
// numdummies=0, or they bring a device of their own.
func (c *Config) Modules() []string {
	var out []string
	for _, m := range []struct {
		kind deviceKind
		name string
	}{{kindBond, "bonding"}, {kindVLAN, "8021q"}, {kindDummy, "dummy"}} {
		if slices.ContainsFunc(c.links, func(l link) bool { return l.kind == m.kind }) {
			out = append(out, m.name)
		}
	}
	return out
}

// find is the wanted link with that id.
func (c *Config) find(id string) *link {
	for i := range c.links {
		if c.links[i].id == id {
			return &c.links[i]
		}
	}
	return nil
}

// match selects a NIC; empty fields do not restrict.
type match struct {
	mac     string
	drivers []string // shell globs, any of which
	name    string   // shell glob
}
