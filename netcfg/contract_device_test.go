package netcfg

import (
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

const bondWish = `
bonds:
  bond0:
    interfaces: [eth0, eth1]
    parameters: {mode: active-backup, primary: eth1}
    mtu: 1400
    addresses: [10.9.0.1/24, "fd00:9::1/64"]
    routes: [{to: default, via: 10.9.0.254, metric: 10}, {to: "fd01::/48", via: "fd00:9::fe"}]
`

var bondShows = []string{
	"bond0 bond up mtu 1400 mode active-backup miimon 100 primary eth1",
	"eth0 up mtu 1400 in bond0", "eth1 up mtu 1400 in bond0",
	"bond0 10.9.0.1/24", "bond0 fd00:9::1/64",
	"bond0 default via 10.9.0.254 metric 10", "bond0 fd01::/48 via fd00:9::fe metric 1024",
}

const lacpWish = `
bonds:
  bond0:
    interfaces: [eth0, eth1]
    parameters: {mode: 802.3ad, lacp-rate: fast, ad-select: count, min-links: 1, transmit-hash-policy: layer3+4, mii-monitor-interval: 200, up-delay: 400, down-delay: 200}
    addresses: [10.9.0.1/24, "fd00:9::1/64"]
vlans:
  bond0.100: {id: 100, link: bond0, accept-ra: false, addresses: [10.9.100.1/24, "fd00:9:100::1/64"]}
`

var lacpShows = []string{
	"bond0 bond up mtu 1500 mode 802.3ad miimon 200",
	"eth0 up mtu 1500 in bond0", "eth1 up mtu 1500 in bond0",
	"bond0.100 vlan up mtu 1500 id 100 on bond0 ra 0",
	"bond0.100 10.9.100.1/24", "bond0.100 fd00:9:100::1/64", "bond0 fd00:9::1/64",
}

// deviceScenarios need the modules bonding, 8021q and dummy.
var deviceScenarios = []scenario{
	{name: "bond from nothing", nics: 2, want: bondWish, shows: bondShows},
	{name: "lacp and vlan from nothing", nics: 2, want: lacpWish, shows: lacpShows},
	{name: "bond of module load", nics: 2, start: steps(ok(mk("bond", "bond0")), refused(unix.EEXIST, mk("bond", "bond0"))), want: bondWish, shows: bondShows},
	{name: "dummy called bond0", nics: 2, start: ok(mk("dummy", "bond0"), up("bond0"), addr("bond0", "10.9.0.1/24")), want: bondWish, shows: bondShows},
	{name: "wrong mode, up, with ports", nics: 2,
		start: steps(ok(mk("bond", "bond0", "mode", "802.3ad"), enslave("eth0", "bond0"), enslave("eth1", "bond0"), up("bond0"),
			addr("bond0", "10.9.0.1/24"), addr("bond0", "fd00:9::1/64")),
			refused(unix.ENOTEMPTY, set("bond0", "mode", "802.3ad"))),
		want: bondWish, shows: bondShows},
	{name: "lacp options differ, up", nics: 2,
		start: steps(ok(mk("bond", "bond0", "mode", "802.3ad"), enslave("eth0", "bond0"), up("bond0"), addr("bond0", "10.9.0.1/24"), addr("bond0", "fd00:9::1/64")),
			refused(unix.EBUSY, set("bond0", "lacp_rate", "fast")), refused(unix.EBUSY, set("bond0", "ad_select", "count"))),
		want: lacpWish, shows: lacpShows},
	{name: "fail_over_mac differs", nics: 2,
		start: steps(ok(mk("bond", "bond0", "mode", "active-backup", "fail_over_mac", "active"), enslave("eth0", "bond0"), up("bond0")),
			refused(unix.ENOTEMPTY, set("bond0", "fail_over_mac", "none"))),
		want: bondWish, shows: bondShows},
	{name: "option of another mode", nics: 2, start: refused(unix.EACCES, mk("bond", "bond0", "mode", "active-backup", "lacp_rate", "fast")), want: bondWish, shows: bondShows},
	{name: "port is up", nics: 2, start: steps(ok(mk("bond", "bond0"), up("eth0")), refused(unix.EPERM, enslave("eth0", "bond0"))), want: bondWish, shows: bondShows},
	{name: "port has addresses", nics: 2, start: ok(up("eth0"), addr("eth0", "10.9.0.1/24"), addr("eth0", "10.9.7.1/24"), addr("eth0", "fd00:9::1/64")), want: bondWish, shows: bondShows},
	{name: "port kept addresses", nics: 2, start: ok(mk("bond", "bond0", "mode", "active-backup"), addr("eth0", "10.9.0.7/24"), enslave("eth0", "bond0")), want: bondWish, shows: bondShows},
	{name: "wrong, extra and missing port", nics: 3, start: ok(mk("bond", "bond0", "mode", "active-backup"), enslave("eth2", "bond0"), up("bond0")), want: bondWish, shows: append(slices.Clone(bondShows), "eth2 down mtu 1500")},
	{name: "port of another bond", nics: 2, start: ok(mk("bond", "bond1", "mode", "active-backup"), enslave("eth0", "bond1"), up("bond1"), addr("bond1", "10.9.0.1/24")), want: bondWish, shows: bondShows},
	{name: "port's MTU lowered", nics: 2, start: ok(mk("bond", "bond0", "mode", "active-backup"), set("bond0", "mtu", "1400"), enslave("eth0", "bond0"), set("eth0", "mtu", "1300")), want: bondWish, shows: bondShows},
	{name: "port went down", nics: 2, start: ok(mk("bond", "bond0", "mode", "active-backup"), enslave("eth0", "bond0"), up("bond0"), downOp("eth0")), want: bondWish, shows: bondShows},
	{name: "bond deleted", nics: 2, start: ok(mk("bond", "bond0"), enslave("eth0", "bond0"), Op{Verb: OpDelete, Link: "bond0"}), want: bondWish, shows: bondShows},
	{name: "one port is missing", nics: 1, want: strings.Replace(bondWish, ", primary: eth1", "", 1),
		shows: []string{"bond0 bond up mtu 1400 mode active-backup", "eth0 up mtu 1400 in bond0", "bond0 10.9.0.1/24"}},
	{name: "vlan of another id", nics: 2, start: ok(mk("bond", "bond0", "mode", "802.3ad"), mkVLAN("bond0.100", "bond0", 7)), want: lacpWish, shows: lacpShows},
	{name: "vlan under another name", nics: 2,
		start: steps(ok(mk("bond", "bond0", "mode", "802.3ad"), mkVLAN("vlan100", "bond0", 100)), refused(unix.EEXIST, mkVLAN("v", "bond0", 100))),
		want:  lacpWish, shows: lacpShows},
	{name: "vlan on another link", nics: 2, start: ok(mkVLAN("bond0.100", "eth0", 100), up("eth0"), up("bond0.100")), want: lacpWish, shows: lacpShows},
	{name: "live options differ", nics: 2,
		start: ok(mk("bond", "bond0", "mode", "active-backup", "miimon", "200", "min_links", "1"), set("bond0", "mtu", "1400"), enslave("eth0", "bond0"), enslave("eth1", "bond0"),
			set("bond0", "primary", "eth0"), set("bond0", "xmit_hash_policy", "layer3+4"), up("bond0")),
		want: bondWish, shows: bondShows, never: []Verb{OpDown, OpUp, OpEnslave, OpRelease, OpCreate}},
	{name: "ports are right", nics: 2,
		start: ok(mk("bond", "bond0", "mode", "active-backup", "miimon", "100"), enslave("eth0", "bond0"), enslave("eth1", "bond0")),
		want:  bondWish, shows: bondShows, never: []Verb{OpEnslave, OpRelease, OpDown}},
	{name: "alternative name bond0", nics: 2, start: happens(altName, "eth1"), want: bondWish, shows: bondShows},
	{name: "vlan recreated", nics: 2, start: ok(mk("bond", "bond0", "mode", "802.3ad"), up("bond0"), mkVLAN("bond0.100", "bond0", 100), set("bond0.100", "accept_ra", "0"), addr("bond0.100", "10.9.100.1/24"),
		Op{Verb: OpDelete, Link: "bond0.100"}, mkVLAN("bond0.100", "bond0", 100)), want: lacpWish, shows: lacpShows},
	{name: "vlan over its link's MTU", nics: 1, start: steps(ok(mkVLAN("v", "eth0", 5)), refused(unix.ERANGE, set("v", "mtu", "9000")), refused(unix.ENETDOWN, up("v"))),
		want: `
ethernets: {eth0: {mtu: 9000}}
vlans: {v: {id: 5, link: eth0, mtu: 9000}}
`, shows: []string{"v vlan up mtu 9000 id 5 on eth0"}},
	{name: "dummy with another MAC", nics: 2, start: ok(mk("dummy", "d")), want: `
dummy-devices: {d: {macaddress: "02:00:00:00:00:99", addresses: [10.9.0.1/32]}}
`, shows: []string{"d dummy up mtu 1500", "d 10.9.0.1/32"}},
	{name: "link-local addresses of devices deleted", nics: 2,
		start: steps(ok(mk("bond", "bond0", "mode", "active-backup", "miimon", "100"), enslave("eth0", "bond0"), up("bond0"), mkVLAN("v", "bond0", 5), up("v"),
			mk("dummy", "d", "mac", "02:00:00:00:00:99"), up("d")), happens(checked, "bond0"), happens(checked, "v"), happens(checked, "d"),
			ok(Op{Verb: OpDeleteAddress, Link: "bond0", Address: net4("fe80::ff:fe00:0/64")}, Op{Verb: OpDeleteAddress, Link: "v", Address: net4("fe80::ff:fe00:0/64")},
				Op{Verb: OpDeleteAddress, Link: "d", Address: net4("fe80::ff:fe00:99/64")})), want: `
bonds: {bond0: {interfaces: [eth0], parameters: {mode: active-backup}}}
vlans: {v: {id: 5, link: bond0}}
dummy-devices: {d: {macaddress: "02:00:00:00:00:99"}}
`, shows: []string{"bond0 fe80::ff:fe00:0/64", "v fe80::ff:fe00:0/64", "d fe80::ff:fe00:99/64"}, never: []Verb{OpDown, OpUp, OpAddAddress}},
	{name: "arp monitoring to mii", nics: 2, start: ok(mk("bond", "bond0", "mode", "active-backup", "arp_interval", "500", "arp_ip_target", "10.9.0.9")), want: bondWish, shows: bondShows},
	{name: "mii to arp monitoring", nics: 2, start: ok(mk("bond", "bond0", "mode", "active-backup", "miimon", "100")), want: `
bonds: {bond0: {interfaces: [eth0, eth1], parameters: {mode: active-backup, arp-interval: 500, arp-ip-targets: [10.9.0.9, 10.9.0.8], arp-validate: all}}}
`, shows: []string{"bond0 bond up mtu 1500 mode active-backup miimon 0"}},
}
