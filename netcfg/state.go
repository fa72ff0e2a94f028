package netcfg

import (
	"net/netip"
)

// State is what the kernel says, complete enough to plan on. Its zero value is
// a machine without any interface.
type State struct {
	Links      []LinkState    `yaml:"links"`     // by index
	Addresses  []AddressState `yaml:"addresses"` // in the kernel's order
	Routes     []RouteState   `yaml:"routes"`    // those with at most one next hop
	Rules      []RuleState    `yaml:"rules"`     // those that a Rule can describe
	ResolvConf *string        `yaml:"resolv"`    // nil: not ours to write

	Hosts *string `yaml:"-"` // the hosts file; nil: not ours to write

	// Sysctls is the kernel settings that are wanted and exist, by key; nil:
	// not ours to set. Refused is, by key, why the kernel did not take one
	// whose next try is not due.
	Sysctls map[string]string `yaml:"sysctls"`
	Refused map[string]string `yaml:"-"`
}

// LinkState is one interface.
type LinkState struct {
	Index    int      `yaml:"index"`
	Name     string   `yaml:"name"`
	AltNames []string `yaml:"altnames"`

	Predictable []string `yaml:"predictable"` // names udev would offer, its first choice first
	Kind        string   `yaml:"kind"`        // IFLA_INFO_KIND, "" for hardware
	MAC         string   `yaml:"mac"`         // lower case, with colons
	PermMAC     string   `yaml:"permmac"`     // burned in, "" if the driver has none
	Driver      string   `yaml:"driver"`      // as ethtool -i says
	Up          bool     `yaml:"up"`          // IFF_UP: administratively
	Carrier     bool     `yaml:"carrier"`     // IFF_LOWER_UP
	// Settling is a carrier so new that the kernel has not yet done what follows
	// from it: the operational state (RFC 2863) is still down, or unknown.
	Settling bool `yaml:"settling"`
	MTU      int  `yaml:"mtu"`
	MaxMTU   int  `yaml:"maxmtu"` // the most that the driver takes, 0 when not known
	Parent   int  `yaml:"parent"` // index, IFLA_LINK; 0 for none
	Master   int  `yaml:"master"` // index, IFLA_MASTER; 0 for none

	VLAN int         `yaml:"vlan"` // id, kind vlan
	Bond BondOptions `yaml:"bond"` // kind bond
	LACP LACPState   `yaml:"lacp"` // kind bond, mode 802.3ad
	Port PortState   `yaml:"port"` // of a bond

	// By sysfs names with values in sysfs words. A timer that is the root
	// bridge's and not its own is missing.
	Bridge     map[string]string `yaml:"bridge"`     // kind bridge
	BridgePort map[string]string `yaml:"bridgeport"` // of a bridge

	WakeOnLAN string `yaml:"wakeonlan"` // off, magic or other; "" if the driver has none

	AcceptRA    int  `yaml:"acceptra"`    // net.ipv6.conf.*.accept_ra
	Forwarding  bool `yaml:"forwarding"`  // net.ipv6.conf.*.forwarding
	DisableIPv6 bool `yaml:"disableipv6"` // net.ipv6.conf.*.disable_ipv6
	AddrGenMode int  `yaml:"addrgenmode"` // IN6_ADDR_GEN_MODE_*
	UseTempAddr int  `yaml:"usetempaddr"` // net.ipv6.conf.*.use_tempaddr
	IPv6MTU     int  `yaml:"ipv6mtu"`     // net.ipv6.conf.*.mtu, bytes

	Token netip.Addr `yaml:"token"` // IFLA_INET6_TOKEN, invalid for none
	// What its routers say (RFC 4861, section 4.2): addresses come by DHCPv6,
	// or only the other configuration does.
	RAManaged bool `yaml:"ramanaged"`
	RAOther   bool `yaml:"raother"`

	NoIPv6 bool `yaml:"noipv6"` // no IPv6 on the link at all, for example MTU < 1280
	// IPv6Held is set by the reconciler on a link whose IPv6 settings were
	// written to no avail, and whose next try is not due yet.
	IPv6Held bool `yaml:"-"`
}

// LACPState is the aggregator that an 802.3ad bond uses.
type LACPState struct {
	Aggregator int    `yaml:"aggregator"` // IFLA_BOND_AD_INFO_AGGREGATOR
	Ports      int    `yaml:"ports"`      // in the aggregator
	Actor      string `yaml:"actor"`      // our system MAC, "" if the kernel does not tell
	Partner    string `yaml:"partner"`    // the other's system MAC, "" for none
}

// PortState is a bond port as the bonding driver sees it.
type PortState struct {
	Active     bool `yaml:"active"`     // carries traffic (BOND_STATE_ACTIVE)
	MIIUp      bool `yaml:"miiup"`      // BOND_LINK_UP
	Aggregator int  `yaml:"aggregator"` // 802.3ad aggregator id
	Actor      int  `yaml:"actor"`      // our operational port state, lacp*, 802.3ad
	Partner    int  `yaml:"partner"`    // the partner's

	// What only the driver's file below /proc/net/bonding tells.
	PartnerMAC string `yaml:"partnermac"` // the partner's system MAC, "" for none
	Churned    bool   `yaml:"churned"`    // out of sync for a minute (802.1AX churn detection)
	Speed      int    `yaml:"speed"`      // Mb/s, 0 when unknown
	HalfDuplex bool   `yaml:"halfduplex"`
	Failures   int    `yaml:"failures"` // how often its carrier was lost
}

// The bits of a port's state in LACP (IEEE 802.1AX, 6.4.2.3; AD_STATE_* and
// LACP_STATE_* of the bonding driver).
const (
	lacpSync      = 0x08
	lacpDefaulted = 0x40 // no partner is heard: its data is made up
	lacpExpired   = 0x80
)

// AddressState is one address. Only that of a dynamic one ends: Preferred and
// Valid are the seconds that are left of it.
type AddressState struct {
	Link       int          `yaml:"link"` // index
	Prefix     netip.Prefix `yaml:"prefix"`
	Proto      int          `yaml:"proto"` // IFA_PROTO, 0 before Linux 5.18
	Dynamic    bool         `yaml:"dynamic"`
	Preferred  uint32       `yaml:"preferred"`
	Valid      uint32       `yaml:"valid"`
	Tentative  bool         `yaml:"tentative"`
	DADFailed  bool         `yaml:"dadfailed"`
	Deprecated bool         `yaml:"deprecated"`
	Temporary  bool         `yaml:"temporary"`
	Label      string       `yaml:"label"` // IPv4; "" is the link's name
	// Holder is the MAC of the machine that has a failed address; the
	// reconciler asks for it.
	Holder string `yaml:"holder"`
	// Held is set by the reconciler on a failed address whose next try is not
	// due yet: the plan leaves it alone.
	Held bool `yaml:"held"`
}

// left is how much longer the kernel will keep the address.
func (a AddressState) left() lifetime {
	l := lifetime{a.Preferred, a.Valid}
	if !a.Dynamic {
		// Of a permanent address the kernel tells no other numbers for IPv4.
		if l = forever; a.Deprecated {
			l.preferred = 0
		}
	}
	return l
}

// Route is a route without its owner. Metric is the kernel's own default where
// the document has none: 0 for IPv4, 1024 for IPv6.
type Route struct {
	To     netip.Prefix `yaml:"to"`
	Via    netip.Addr   `yaml:"via"`
	From   netip.Addr   `yaml:"from"` // preferred source
	Metric int          `yaml:"metric"`
	Table  int          `yaml:"table"` // 254 is main
	Scope  int          `yaml:"scope"` // RT_SCOPE_*, IPv4 only
	OnLink bool         `yaml:"onlink"`

	Type string `yaml:"type"` // netplan's word, "" for unicast
	// What TCP takes for the path; 0 is the kernel's own (RTAX_MTU,
	// RTAX_ADVMSS in bytes, RTAX_INITCWND and RTAX_INITRWND in segments).
	MTU               int `yaml:"mtu"`
	AdvertisedMSS     int `yaml:"advmss"`
	CongestionWindow  int `yaml:"initcwnd"`
	AdvertisedReceive int `yaml:"initrwnd"`
}

// RouteState is a route in the kernel.
type RouteState struct {
	Link  int `yaml:"link"`  // index, 0 for a route that refuses, which has none
	Proto int `yaml:"proto"` // RTPROT_*
	Route `yaml:",inline"`
}

// RuleState is a rule in the kernel.
type RuleState struct {
	Proto int `yaml:"proto"` // RTPROT_*
	Rule  `yaml:",inline"`
}

// ownProto marks our routes and addresses in the kernel (RTA_PROTOCOL,
// IFA_PROTO). 82 is "R"; iproute2's rt_protos and the kernel's rtnetlink.h
// leave it free.
const ownProto = 82

// mainTable is RT_TABLE_MAIN.
const mainTable = 254

// link is the interface with that index, nil if there is none.
func (s *State) link(index int) *LinkState {
	for i := range s.Links {
		if s.Links[i].Index == index {
			return &s.Links[i]
		}
	}
	return nil
}

// named is the interface with that name, nil if there is none.
func (s *State) named(name string) *LinkState {
	for i := range s.Links {
		if s.Links[i].Name == name {
			return &s.Links[i]
		}
	}
	return nil
}
