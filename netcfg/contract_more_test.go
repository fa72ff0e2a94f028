package netcfg

import (
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// The scenarios of bridges, policy rules, route types and IPv6's settings.

func setOf(kind, link, name, value string) Op {
	return Op{Verb: OpSet, Kind: kind, Link: link, Settings: []Setting{{name, value}}}
}

func addRoute(link string, r Route) Op {
	if r.Table == 0 {
		r.Table = mainTable
	}
	return Op{Verb: OpAddRoute, Link: link, Route: r}
}

// foreign is what an operator did by hand.
func foreign(op Op) Op {
	op.Proto = unix.RTPROT_STATIC
	return op
}

func addRule(r Rule) Op { return Op{Verb: OpAddRule, Rule: r} }

func net4(s string) netip.Prefix { return netip.MustParsePrefix(s) }

const bridgeWish = `
bridges:
  br0:
    interfaces: [eth0, eth1]
    mtu: 1400
    parameters: {stp: true, forward-delay: 4, hello-time: 1, max-age: 8, ageing-time: 60, priority: 4096, path-cost: {eth0: 50}, port-priority: {eth1: 10}}
    addresses: [10.9.0.1/24, "fd00:9::1/64"]
    routes: [{to: default, via: 10.9.0.254, metric: 10}]
`

var bridgeShows = []string{
	"br0 bridge up mtu 1400 stp_state 1 forward_delay 400 hello_time 100 max_age 800 ageing_time 6000 priority 4096",
	"eth0 up mtu 1500 in br0 path_cost 50 priority 32", "eth1 up mtu 1500 in br0 path_cost 2 priority 10",
	"br0 10.9.0.1/24", "br0 fd00:9::1/64", "br0 default via 10.9.0.254 metric 10",
}

const towerWish = `
bonds: {bond0: {interfaces: [eth0], parameters: {mode: active-backup}}}
vlans:
  v5: {id: 5, link: br0, addresses: [10.9.5.1/24]}
  v5.6: {id: 6, link: v5, addresses: ["fd00:9:6::1/64"]}
  v7: {id: 7, link: eth1}
bridges:
  br0: {interfaces: [bond0, v7], addresses: [10.9.0.1/24]}
`

var towerShows = []string{
	"br0 bridge up mtu 1500 stp_state 0", "bond0 bond up mtu 1500 mode active-backup miimon 100 in br0",
	"eth0 up mtu 1500 in bond0", "v7 vlan up mtu 1500 id 7 on eth1 in br0",
	"v5 vlan up mtu 1500 id 5 on br0", "v5.6 vlan up mtu 1500 id 6 on v5",
	"br0 10.9.0.1/24", "v5 10.9.5.1/24", "v5.6 fd00:9:6::1/64",
}

var bridgeScenarios = []scenario{
	{name: "bridge from nothing", nics: 2, want: bridgeWish, shows: bridgeShows},
	{name: "a tower of devices", nics: 2, want: towerWish, shows: towerShows},
	{name: "bridge of other options", nics: 3,
		start: steps(ok(mk("bridge", "br0", "stp_state", "1", "priority", "99"), enslave("eth2", "br0"), enslave("eth1", "br0"), up("br0"), up("eth1"), up("eth2"),
			setOf("bridge port", "eth1", "path_cost", "7"), addr("br0", "10.9.0.1/16")),
			refused(unix.ERANGE, setOf("bridge", "br0", "forward_delay", "100")), refused(unix.ERANGE, setOf("bridge", "br0", "hello_time", "1")),
			refused(unix.ERANGE, setOf("bridge", "br0", "max_age", "100")), refused(unix.ERANGE, setOf("bridge port", "eth1", "priority", "64"))),
		want: bridgeWish, shows: append([]string{"eth2 up mtu 1500"}, bridgeShows[0], bridgeShows[3], bridgeShows[5])},
	{name: "spanning tree to be off", nics: 1, start: ok(mk("bridge", "br0", "stp_state", "1"), enslave("eth0", "br0"), up("br0"), up("eth0")), want: `
bridges: {br0: {interfaces: [eth0], parameters: {stp: false, forward-delay: 0}}}
`, shows: []string{"br0 bridge up mtu 1500 stp_state 0 forward_delay 0"}},
	{name: "spanning tree to be on", nics: 1, start: ok(mk("bridge", "br0", "forward_delay", "0"), enslave("eth0", "br0"), up("br0"), up("eth0")), want: `
bridges: {br0: {interfaces: [eth0], parameters: {forward-delay: 2}}}
`, shows: []string{"br0 bridge up mtu 1500 stp_state 1 forward_delay 200"}},
	{name: "bridge port has addresses", nics: 2, start: ok(up("eth0"), addr("eth0", "10.9.0.1/24"), addr("eth0", "fd00:9::1/64"), up("eth1")), want: bridgeWish, shows: bridgeShows},
	{name: "bridge port is a bond's", nics: 2, start: ok(mk("bond", "bond9", "mode", "active-backup"), enslave("eth0", "bond9"), up("bond9")), want: bridgeWish, shows: bridgeShows},
	{name: "bond port is a bridge's", nics: 2, start: ok(mk("bridge", "br9"), enslave("eth0", "br9"), up("br9"), up("eth0")), want: bondWish, shows: bondShows},
	{name: "dummy called br0", nics: 2, start: ok(mk("dummy", "br0"), up("br0"), addr("br0", "10.9.0.1/24")), want: bridgeWish, shows: bridgeShows},
	{name: "bridge in a bridge", nics: 0, start: steps(ok(mk("bridge", "br1"), mk("bridge", "br0")), refused(unix.ELOOP, enslave("br1", "br0"))), want: `
bridges: {br0: {addresses: [10.9.0.1/24]}}
`, shows: []string{"br0 bridge up mtu 1500", "br0 10.9.0.1/24"}},
	{name: "bridge of its own vlan", nics: 1, start: steps(ok(mk("bridge", "br0"), mkVLAN("v", "br0", 5)), refused(unix.EBUSY, enslave("v", "br0"))), want: `
ethernets: {eth0: {}}
bridges: {br0: {interfaces: [eth0]}}
vlans: {v: {id: 5, link: br0, addresses: [10.9.1.1/24]}}
`, shows: []string{"eth0 up mtu 1500 in br0", "v vlan up mtu 1500 id 5 on br0", "v 10.9.1.1/24"}},
	{name: "was a bridge's port", nics: 1, start: ok(mk("bridge", "br1"), set("eth0", "addr_gen_mode", "1"), enslave("eth0", "br1"), up("eth0")), want: nicWish, shows: nicShows},
	{name: "its link is down", nics: 1, want: `
ethernets: {eth0: {activation-mode: "off", addresses: [10.9.0.1/24]}}
vlans: {v: {id: 5, link: eth0, addresses: [10.9.1.1/24]}}
`, shows: []string{"eth0 down mtu 1500", "v vlan down mtu 1500 id 5 on eth0"}},
}

const policyWish = `
ethernets:
  eth0:
    addresses:
    - 10.9.0.1/24: {label: "eth0:web"}
    - 10.9.0.2/24: {lifetime: 0}
    - fd00:9::2/64: {lifetime: 0}
    - 10.9.7.1/24
    routes:
    - {to: 10.1.0.0/16, via: 10.9.0.254, mtu: 1300, advertised-mss: 1200, congestion-window: 20, advertised-receive-window: 30, table: 100}
    - {to: 10.2.0.0/16, type: blackhole}
    - {to: 10.3.0.0/16, type: unreachable, metric: 5}
    - {to: 10.4.0.0/16, type: prohibit}
    - {to: 10.5.0.0/16, type: throw, table: 100}
    - {to: 10.6.0.0/16, type: local, table: 255}
    - {to: "fd02::/48", type: blackhole}
    - {to: "fd03::/48", type: unreachable, table: 100}
    - {to: "fd04::/48", type: prohibit}
    - {to: "fd05::/48", via: "fd00:9::fe", mtu: 1280, advertised-mss: 1200}
    routing-policy:
    - {from: 10.9.0.0/24, table: 100, priority: 50}
    - {to: 10.1.0.0/16, table: 100}
    - {from: 10.9.7.0/24, table: 100, mark: 7, type-of-service: 16, priority: 60}
    - {from: 0.0.0.0/0, to: 10.8.0.0/16, table: 100, priority: 70}
    - {from: "fd00:9::/64", table: 100, priority: 50}
`

var policyShows = []string{
	"eth0 10.9.0.1/24 eth0:web", "eth0 10.9.0.2/24 deprecated", "eth0 fd00:9::2/64 deprecated", "eth0 10.9.7.1/24\n",
	"eth0 10.1.0.0/16 via 10.9.0.254 table 100 mtu 1300 advmss 1200 initcwnd 20 initrwnd 30",
	"blackhole 10.2.0.0/16", "unreachable 10.3.0.0/16 metric 5", "prohibit 10.4.0.0/16", "throw 10.5.0.0/16 table 100",
	"eth0 local 10.6.0.0/16 table 255", "blackhole fd02::/48 metric 1024", "unreachable fd03::/48 metric 1024 table 100",
	"prohibit fd04::/48 metric 1024", "eth0 fd05::/48 via fd00:9::fe metric 1024 mtu 1280 advmss 1200",
	"rule from 10.9.0.0/24 lookup 100 priority 50", "rule from all to 10.1.0.0/16 lookup 100 priority ",
	"rule from 10.9.7.0/24 fwmark 0x7 tos 0x10 lookup 100 priority 60", "rule from all to 10.8.0.0/16 lookup 100 priority 70", "rule -6 from fd00:9::/64 lookup 100 priority 50",
}

const ipv6Wish = `
ethernets:
  eth0: {accept-ra: true, ipv6-privacy: true, ipv6-mtu: 1400, ipv6-address-token: "::7", addresses: ["fd00:9::1/64"]}
  eth1: {accept-ra: false, ipv6-privacy: false, ipv6-address-generation: eui64}
`

var ipv6Shows = []string{"eth0 up mtu 1500 ra 2 temp 2 token ::7 mtu6 1400", "eth0 fd00:9::1/64", "eth1 up mtu 1500 ra 0 temp 0\n",
	"eth1 fe80::ff:fe00:1/64"}

const privacyWish = `
ethernets: {eth0: {ipv6-address-generation: stable-privacy, addresses: ["fd00:9::1/64"]}}
`

// policyScenarios need nothing but NICs.
var policyScenarios = []scenario{
	{name: "routes and rules from nothing", nics: 1, want: policyWish, shows: policyShows},
	{name: "routes and rules of ours that differ", nics: 1,
		start: steps(ok(up("eth0"), addr("eth0", "10.9.0.1/24"), addr("eth0", "fd00:9::fe/64"),
			addRoute("eth0", Route{To: net4("10.2.0.0/16"), Via: netip.MustParseAddr("10.9.0.9")}),
			addRoute("", Route{To: net4("10.1.0.0/16"), Type: "prohibit", Table: 100}),
			addRoute("", Route{To: net4("10.7.0.0/16"), Type: "blackhole"}),
			addRoute("eth0", Route{To: net4("fd02::/48"), Metric: 1024}),
			addRoute("eth0", Route{To: net4("fd05::/48"), Metric: 1024, MTU: 1400}),
			addRoute("", Route{To: net4("fd07::/48"), Metric: 1024, Type: "prohibit"}),
			addRule(Rule{From: net4("10.9.0.0/24"), Table: 101, Priority: 50}),
			addRule(Rule{To: net4("10.1.0.0/16"), Table: 100, Priority: 9}),
			addRule(Rule{IPv6: true, To: net4("fd00::/16"), Table: 7, Priority: -1})),
			refused(unix.EEXIST, addRoute("", Route{To: net4("10.2.0.0/16"), Type: "throw"})),
			refused(unix.EEXIST, addRule(Rule{From: net4("10.9.0.0/24"), Table: 101, Priority: 50}))),
		want: policyWish, shows: policyShows},
	{name: "address of another label and life", nics: 1, start: ok(up("eth0"), addr("eth0", "10.9.0.1/24"),
		Op{Verb: OpAddAddress, Link: "eth0", Address: net4("10.9.7.1/24"), Label: "eth0:x", Preferred: 300, Valid: 600},
		Op{Verb: OpAddAddress, Link: "eth0", Address: net4("10.9.0.2/24"), Preferred: 300, Valid: 600},
		Op{Verb: OpAddAddress, Link: "eth0", Address: net4("fd00:9::2/64"), Preferred: 300, Valid: 600}), want: policyWish, shows: policyShows},
	{name: "IPv6 settings from nothing", nics: 2, want: ipv6Wish, shows: ipv6Shows},
	{name: "IPv6 settings reset by the MTU", nics: 2, start: ok(set("eth0", "use_tempaddr", "0"), set("eth0", "mtu", "1000"), set("eth0", "mtu", "1500"), up("eth0")), want: ipv6Wish, shows: ipv6Shows},
	{name: "token without advertisements", nics: 2, start: steps(ok(set("eth0", "accept_ra", "0")), refused(unix.EINVAL, set("eth0", "token", "::5")), refused(unix.EINVAL, set("eth0", "ipv6_mtu", "1600"))),
		want: ipv6Wish, shows: ipv6Shows},
	{name: "mode changed while up", nics: 2, start: ok(up("eth1"), set("eth1", "addr_gen_mode", "3")), want: ipv6Wish, shows: ipv6Shows},
	{name: "link-local of another MAC", nics: 2, start: ok(up("eth1"), set("eth1", "mac", "02:00:00:00:00:55")), want: ipv6Wish,
		shows: append(slices.Clone(ipv6Shows[:3]), "eth1 fe80::ff:fe00:55/64")},
	{name: "privacy from nothing", nics: 1, start: refused(unix.EINVAL, set("eth0", "addr_gen_mode", "2")), want: privacyWish, shows: []string{"eth0 up mtu 1500 gen 2"}},
	{name: "privacy while up", nics: 1, start: ok(up("eth0")), want: privacyWish, shows: []string{"eth0 up mtu 1500 gen 2"}},
	{name: "off", nics: 1, start: ok(up("eth0"), addr("eth0", "10.9.0.1/24")), want: `
ethernets: {eth0: {activation-mode: "off", addresses: [10.9.0.1/24]}}
`, shows: []string{"eth0 down mtu 1500"}},
	{name: "manual and up", nics: 1, start: ok(up("eth0")), want: `
ethernets: {eth0: {activation-mode: manual, macaddress: "02:00:00:00:00:77", addresses: [10.9.0.1/24], routes: [{to: default, via: 10.9.0.2}]}}
`, shows: []string{"eth0 up mtu 1500", "eth0 10.9.0.1/24", "eth0 default via 10.9.0.2"}},
	{name: "manual and down", nics: 1, want: `
ethernets: {eth0: {activation-mode: manual, addresses: [10.9.0.1/24]}}
`, shows: []string{"eth0 down mtu 1500"}},
}
