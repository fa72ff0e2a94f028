package netcfg

import (
	"net/netip"
	"slices"
)

// Config is a compiled network document. Only Parse and ParseNode make one, so
// every reference in it resolves and every value is one that the kernel takes.
type Config struct {
	links   []link   // parents before children, ports before masters
	sysctls []Sysctl // beside the document, in the order of writing
	hosts   string   // beside the document, the text of the hosts file; "" leaves it
}

// deviceKind is the kernel's IFLA_INFO_KIND of a device that we create; ""
// stands for a device that exists without us.
type deviceKind string

const (
	kindNIC    deviceKind = ""
	kindDummy  deviceKind = "dummy"
	kindBond   deviceKind = "bond"
	kindBridge deviceKind = "bridge"
	kindVLAN   deviceKind = "vlan"
)

// link is one wanted device.
type link struct {
	id   string
	kind deviceKind

	match *match // NICs only; nil means the one named so
	name  string // the name it shall have; "" for a matched NIC that keeps its own

	mac        string // "" leaves it
	macPerm    bool   // the burned-in address is wanted, mac is ""
	mtu        int    // bytes, 0 leaves it
	wakeOnLAN  *bool  // by magic packet; nil leaves it
	activation activation

	optional          bool     // nobody waits for it
	optionalAddresses []string // kinds of addresses that nobody waits for, see optionalKinds
	ignoreCarrier     bool     // nobody waits for its carrier

	addresses []address
	routes    []Route
	rules     []Rule
	dns       dns

	linkLocal bool // IPv6 link-local address wanted (netplan's default)
	ipv6MTU   int  // bytes, 0 is the link's

	acceptRA *bool // nil leaves the kernel's setting
	ra       raOverrides
	addrGen  addrGen
	token    netip.Addr // interface identifier in its lower 64 bits; invalid for none
	privacy  *bool      // temporary addresses, and preferred (RFC 8981); nil leaves it

	dhcp4, dhcp6 *dhcpWish // nil: no DHCP
	dhcpID       dhcpID

	leaseOf    string          // id of the entry that this link is one interface of
	leaseWaits []linkLeaseWait // the leases that it has not yet

	bond   bond   // kindBond only
	bridge bridge // kindBridge only
	vlan   vlan   // kindVLAN only

	// brport is what it shall be as a port of a bridge, by the names of
	// /sys/class/net/*/brport/ with values in its words: path_cost, priority,
	// hairpin_mode, learning, neigh_suppress. An absent one is left alone.
	brport map[string]string
}

// activation is who brings a link up.
type activation string

const (
	activateUp     activation = ""       // we do
	activateManual activation = "manual" // somebody else, up or down is not ours
	activateOff    activation = "off"    // it shall be down
)

// addrGen is how the kernel makes the interface identifier of addresses that
// it derives from a prefix (IN6_ADDR_GEN_MODE_*).
type addrGen string

const (
	addrGenLeave   addrGen = "" // whatever the link has, unless it has none
	addrGenByMAC   addrGen = "eui64"
	addrGenPrivacy addrGen = "stable-privacy" // RFC 7217: wants a secret first
)

// optionalKinds is netplan's words for the kinds of addresses of a link.
var optionalKinds = []string{"ipv4-ll", "ipv6-ra", "dhcp4", "dhcp6", "static"}

// address is one wanted address of a link.
type address struct {
	netip.Prefix
	label string // IPv4 only; "" is the link's name
	lifetime
}

// lifetime is how long an address is still preferred and valid, in seconds
// from the moment of the wish (struct ifa_cacheinfo); infinity is for ever. A
// document's addresses are always valid, but may be deprecated from the start
// (preferred 0); a lease's are as long as the lease.
type lifetime struct{ preferred, valid uint32 }

// infinity is the lifetime of a permanent address (INFINITY_LIFE_TIME).
const infinity = 0xffffffff

var forever = lifetime{infinity, infinity}

// near reports whether the kernel keeps an address as long as it shall, but for
// the seconds that an observation is old and for what two clocks differ in a
// month. A renewal adds far more.
func (l lifetime) near(have lifetime) bool {
	return nearSeconds(l.preferred, have.preferred) && nearSeconds(l.valid, have.valid)
}

func nearSeconds(want, have uint32) bool {
	if want == infinity || have == infinity || want == 0 || have == 0 {
		return want == have
	}
	return max(want, have)-min(want, have) <= 5+want/1024
}

// has reports whether one of the wanted addresses is p.
func (l *link) has(p netip.Prefix) bool {
	return slices.ContainsFunc(l.addresses, func(a address) bool { return a.Prefix == p })
}

// wantsIPv6 reports whether IPv6 must be enabled on the link.
func (l link) wantsIPv6() bool {
	return l.acceptRA != nil && *l.acceptRA || l.dhcp6 != nil ||
		slices.ContainsFunc(l.addresses, func(a address) bool { return a.Addr().Is6() })
}

// Rule is one rule of policy routing. To and From are of one family.
type Rule struct {
	IPv6     bool         `yaml:"ipv6"`
	From     netip.Prefix `yaml:"from"`     // invalid for any
	To       netip.Prefix `yaml:"to"`       // invalid for any
	Priority int          `yaml:"priority"` // -1: the kernel chooses one
	Table    int          `yaml:"table"`
	Mark     int          `yaml:"mark"` // 0 for any
	TOS      int          `yaml:"tos"`  // 0 for any
}

// dhcpWish is what a lease is used for (netplan's dhcp4-overrides, dhcp6-overrides).
type dhcpWish struct {
	useDNS, useNTP, useMTU, useRoutes bool // all true unless overridden

	useDomains   bool   // search the lease's domains; false by default
	sendHostname bool   // true by default
	hostname     string // to send instead of the machine's
	metric       int    // of the lease's routes, -1 for the default
}

// dhcpID is what a DHCPv4 client calls itself (option 61).
type dhcpID string

const (
	dhcpByDUID dhcpID = ""    // RFC 4361: IAID and DUID
	dhcpByMAC  dhcpID = "mac" // hardware type and address
)

// raOverrides is what a router advertisement is used for.
type raOverrides struct {
	useDNS     bool // true unless overridden
	useDomains bool // false by default
}

type bond struct {
	ports   []string // ids, in the order in which they are enslaved
	primary string   // id, "" for none
	options BondOptions
}

type bridge struct {
	ports []string // ids; may be none
	// options is by the names of /sys/class/net/*/bridge/ with values in its
	// words (times in hundredths of a second): ageing_time, forward_delay,
	// hello_time, max_age, priority, stp_state. An absent one is left alone.
	options map[string]string
}

type vlan struct {
	id     int
	parent string // id
}

type dns struct {
	servers []netip.Addr
	search  []string
}

// dns is all links' name servers and search domains, without repeats. glibc
// reads 3 servers and 256 bytes of the search list; more than maxServers and
// maxSearch are never written.
func (c *Config) dns() dns {
	var all dns
	for _, l := range c.links {
		for _, s := range l.dns.servers {
			all.servers = appendNew(all.servers, s)
		}
		for _, s := range l.dns.search {
			all.search = appendNew(all.search, s)
		}
	}
	all.servers = all.servers[:min(len(all.servers), maxServers)]
	all.search = all.search[:min(len(all.search), maxSearch)]
	return all
}

// Modules is the kernel modules that the document's devices need, in no
// particular order of dependency. Load bonding with max_bonds=0 and dummy with
// numdummies=0, or they bring a device of their own.
func (c *Config) Modules() []string {
	var out []string
	for _, m := range []struct {
		kind deviceKind
		name string
	}{{kindBond, "bonding"}, {kindBridge, "bridge"}, {kindVLAN, "8021q"}, {kindDummy, "dummy"}} {
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
