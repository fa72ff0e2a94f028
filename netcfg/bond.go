package netcfg

import (
	"fmt"
	"strconv"
)

// BondOptions is a bond's options by their sysfs names with values in sysfs
// words: mode=802.3ad, miimon=100, xmit_hash_policy=layer3+4.
type BondOptions map[string]string

// change is how disruptive it is to change an option of a bond that exists.
type change int

const (
	live    change = iota // at any time, no link event
	down                  // only while the bond is down; its ports may stay
	noPorts               // only down and without ports
)

// bondOption is one row of what the bonding driver allows
// (drivers/net/bonding/bond_options.c, bond_opts[]: the flags
// BOND_OPTFLAG_IFDOWN and _NOSLAVES, and unsuppmodes).
type bondOption struct {
	name   string // sysfs
	key    string // netplan, "" if only we set it
	attr   uint16 // IFLA_BOND_*
	size   int    // bytes of the attribute's value
	change change
	modes  string   // modes that have it, space-separated; "" for all
	words  []string // names of the values, counting from 0; nil for numbers
	lo, hi int      // of a number
	def    string   // the driver's default, which an absent key asks for
}

// unmanaged is the default of an option that only an explicit wish changes.
const unmanaged = "unmanaged"

const (
	modesARP     = "balance-rr active-backup balance-xor broadcast"
	modesPrimary = "active-backup balance-tlb balance-alb"
	modesLACP    = "802.3ad"
)

var bondModes = []string{"balance-rr", "active-backup", "balance-xor", "broadcast", "802.3ad", "balance-tlb", "balance-alb"}

// bondOptions is in the order in which bond_changelink (bond_netlink.c) takes
// them, because some depend on earlier ones: mode before all, miimon before
// the delays that are counted in it.
var bondOptions = []bondOption{
	{name: "mode", key: "mode", attr: 1, size: 1, change: noPorts, words: bondModes, def: "balance-rr"},
	{name: "miimon", key: "mii-monitor-interval", attr: 3, size: 4, hi: 1<<31 - 1, def: "0"},
	{name: "updelay", key: "up-delay", attr: 4, size: 4, hi: 1<<31 - 1, def: "0"},
	{name: "downdelay", key: "down-delay", attr: 5, size: 4, hi: 1<<31 - 1, def: "0"},
	{name: "use_carrier", attr: 6, size: 1, hi: 1, def: unmanaged},
	{name: "arp_interval", key: "arp-interval", attr: 7, size: 4, hi: 1<<31 - 1, modes: modesARP, def: "0"},
	{name: "arp_ip_target", key: "arp-ip-targets", attr: 8},
	{name: "arp_validate", key: "arp-validate", attr: 9, size: 4, modes: modesARP, words: []string{"none", "active", "backup", "all", "filter", "filter_active", "filter_backup"}, def: "none"},
	{name: "arp_all_targets", key: "arp-all-targets", attr: 10, size: 4, words: []string{"any", "all"}, def: "any"},
	{name: "primary", key: "primary", attr: 11, modes: modesPrimary},
	{name: "primary_reselect", key: "primary-reselect-policy", attr: 12, size: 1, words: []string{"always", "better", "failure"}, def: "always"},
	{name: "fail_over_mac", key: "fail-over-mac-policy", attr: 13, size: 1, change: noPorts, words: []string{"none", "active", "follow"}, def: "none"},
	{name: "xmit_hash_policy", key: "transmit-hash-policy", attr: 14, size: 1, words: []string{"layer2", "layer3+4", "layer2+3", "encap2+3", "encap3+4", "vlan+srcmac"}, def: "layer2"},
	{name: "resend_igmp", key: "resend-igmp", attr: 15, size: 4, hi: 255, def: "1"},
	{name: "num_grat_arp", key: "gratuitous-arp", attr: 16, size: 1, hi: 255, def: "1"},
	{name: "all_slaves_active", key: "all-members-active", attr: 17, size: 1, words: []string{"0", "1"}, def: "0"},
	{name: "min_links", key: "min-links", attr: 18, size: 4, hi: 1<<31 - 1, def: "0"},
	{name: "lp_interval", key: "learn-packet-interval", attr: 19, size: 4, lo: 1, hi: 1<<31 - 1, def: "1"},
	{name: "packets_per_slave", key: "packets-per-member", attr: 20, size: 4, hi: 65535, modes: "balance-rr", def: "1"},
	{name: "lacp_rate", key: "lacp-rate", attr: 21, size: 1, change: down, modes: modesLACP, words: []string{"slow", "fast"}, def: "slow"},
	{name: "ad_select", key: "ad-select", attr: 22, size: 1, change: down, words: []string{"stable", "bandwidth", "count"}, def: "stable"},
}

// bondOptionNamed is the option with that sysfs name, nil if there is none.
func bondOptionNamed(name string) *bondOption {
	for i := range bondOptions {
		if bondOptions[i].name == name {
			return &bondOptions[i]
		}
	}
	return nil
}

// number is the kernel's number for a value in words.
func (o *bondOption) number(value string) (uint32, error) {
	for i, w := range o.words {
		if w == value {
			return uint32(i), nil
		}
	}
	n, err := strconv.ParseUint(value, 10, 32)
	if err != nil {
		return 0, fmt.Errorf("encode bond option %s: no value %q", o.name, value)
	}
	return uint32(n), nil
}

// word is the kernel's number in words; a number that we know no word for
// stays a number, and so differs from every wish.
func (o *bondOption) word(n uint32) string {
	if int64(n) < int64(len(o.words)) {
		return o.words[n]
	}
	return strconv.FormatUint(uint64(n), 10)
}
