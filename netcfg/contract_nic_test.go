package netcfg

import (
	"net/netip"
	"strings"

	"golang.org/x/sys/unix"
)

const nicWish = `
ethernets:
  lan0:
    match: {macaddress: "02:00:00:00:00:00"}
    set-name: lan0
    accept-ra: false
    addresses: [10.9.0.1/24, "fd00:9::1/64"]
    routes: [{to: default, via: 10.9.0.254}, {to: 10.8.0.0/16, via: 10.7.0.1, on-link: true, table: 7}]
`

var nicShows = []string{"lan0 up mtu 1500", "lan0 10.9.0.1/24", "lan0 fd00:9::1/64",
	"lan0 default via 10.9.0.254", "lan0 10.8.0.0/16 via 10.7.0.1 table 7"}

// nicScenarios need nothing but NICs.
var nicScenarios = []scenario{
	{name: "nothing yet", nics: 1, want: nicWish, shows: nicShows},
	{name: "rename while up", nics: 1, start: ok(up("eth0"), addr("eth0", "10.9.0.1/24")), want: nicWish, shows: nicShows},
	{name: "name taken by another", nics: 2, start: ok(rename("eth1", "lan0"), up("lan0")), want: nicWish, shows: nicShows},
	{name: "two names swapped", nics: 2, start: ok(up("eth0"), up("eth1")), want: `
ethernets:
  a: {match: {macaddress: "02:00:00:00:00:00"}, set-name: eth1, addresses: [10.9.0.1/24]}
  b: {match: {macaddress: "02:00:00:00:00:01"}, set-name: eth0, addresses: [10.9.1.1/24]}
`, shows: []string{"eth1 10.9.0.1/24", "eth0 10.9.1.1/24"}},
	{name: "other prefix length", nics: 1,
		start: steps(ok(up("eth0"), addr("eth0", "10.9.0.1/16"), addr("eth0", "fd00:9::1/48")),
			refused(unix.EEXIST, addr("eth0", "fd00:9::1/64"))),
		want: nicWish, shows: nicShows},
	{name: "address on another link", nics: 2, start: ok(up("eth1"), addr("eth1", "10.9.0.1/24"), addr("eth1", "fd00:9::1/64")), want: nicWish, shows: nicShows},
	{name: "stale addresses and routes of ours", nics: 2,
		start: steps(ok(up("eth0"), up("eth1"), addr("eth0", "10.7.0.1/24"), addr("eth1", "10.6.0.1/24"),
			route4("eth0", "0.0.0.0/0", "10.7.0.9", 0), route4("eth1", "10.5.0.0/16", "10.6.0.9", 3)),
			refused(unix.EEXIST, route4("eth1", "0.0.0.0/0", "10.6.0.9", 0))),
		want: nicWish, shows: nicShows},
	{name: "down then up lost the rest", nics: 1,
		start: ok(up("eth0"), addr("eth0", "10.9.0.1/24"), addr("eth0", "fd00:9::1/64"), downOp("eth0"), up("eth0")),
		want:  nicWish, shows: nicShows},
	{name: "IPv6 off", nics: 1, start: steps(ok(up("eth0"), set("eth0", "disable_ipv6", "1")),
		refused(unix.EACCES, addr("eth0", "fd00:9::1/64"))), want: nicWish, shows: nicShows},
	{name: "MTU below IPv6's", nics: 1, start: steps(ok(up("eth0"), set("eth0", "mtu", "1000")),
		refused(unix.ENOENT, set("eth0", "accept_ra", "0"))), want: nicWish + "    mtu: 1500\n", shows: nicShows},
	{name: "address on two links", nics: 2, start: ok(up("eth0"), up("eth1"), addr("eth0", "10.9.0.1/24"), addr("eth1", "10.9.0.1/24"), addr("eth0", "fd00:9::1/64"), addr("eth1", "fd00:9::1/64")),
		want: strings.ReplaceAll(nicWish, "lan0", "eth0"), shows: renamed(nicShows, "lan0", "eth0"), never: []Verb{OpAddAddress}},
	{name: "no carrier", nics: 1, start: steps(ok(up("eth0")), happens(unplug, "eth0")), want: nicWish, shows: nicShows, waits: "no carrier"},
	{name: "optimistic", nics: 1, start: steps(happens(optimistic, "eth0"), ok(up("eth0"))), want: nicWish, shows: nicShows},
	{name: "IPv6 off and on", nics: 1, start: ok(up("eth0"), addr("eth0", "fd00:9::1/64"), set("eth0", "disable_ipv6", "1"), set("eth0", "disable_ipv6", "0")), want: nicWish, shows: nicShows},
	{name: "addresses kept when down", nics: 1, start: steps(happens(keepOnDown, "eth0"),
		ok(up("eth0"), addr("eth0", "10.9.0.1/24"), addr("eth0", "fd00:9::1/64"), route4("eth0", "0.0.0.0/0", "10.9.0.254", 0), downOp("eth0"), up("eth0"))), want: nicWish, shows: nicShows},
	{name: "from another namespace", nics: 1, start: steps(ok(up("eth0"), addr("eth0", "10.9.0.1/24"), set("eth0", "accept_ra", "0")), happens(move, "eth0")), want: nicWish, shows: nicShows},
	{name: "accept_ra for all, too late", nics: 1, start: happens(allForbidRA, "eth0"), want: nicWish, shows: []string{"lan0 up mtu 1500 ra 0"}},
	{name: "route of an advertisement", nics: 1, start: steps(ok(up("eth0"), addr("eth0", "fd00:9::1/64")), happens(routeOfRA, "eth0")), want: `
ethernets: {eth0: {addresses: ["fd00:9::1/64"], routes: [{to: "::/0", via: "fd00:9::fe"}]}}
`, shows: []string{"eth0 default6 via fd00:9::fe metric 1024", "eth0 foreign default6 via fe80::1 metric 512"}},
	{name: "somebody's default route of the same metric", nics: 2,
		start: steps(ok(up("eth1"), addr("eth1", "fd00:8::1/64")), happens(checked, "eth1"),
			ok(foreign(addRoute("eth1", Route{To: net4("::/0"), Via: netip.MustParseAddr("fd00:8::fe"), Metric: 1024})))), want: `
ethernets: {eth0: {addresses: ["fd00:9::1/64"], routes: [{to: "::/0", via: "fd00:9::fe"}]}, eth1: {addresses: ["fd00:8::1/64"]}}
`, shows: []string{"eth0 foreign default6 via fd00:9::fe metric 1024", "eth1 foreign default6 via fd00:8::fe metric 1024"}},
	{name: "somebody's link-local address of the same kind", nics: 2, start: ok(up("eth1"), addr("eth1", "fe80::9/64")), want: `
ethernets: {eth0: {addresses: ["fe80::9/64"]}, eth1: {addresses: ["fe80::9/64"]}}
`, shows: []string{"eth0 fe80::9/64", "eth1 fe80::9/64"}, never: []Verb{OpDeleteAddress}},
	{name: "the source of a route was deleted", nics: 1, start: steps(ok(up("eth0"), addr("eth0", "fd00:9::1/64"), addr("eth0", "fd00:9::2/64")), happens(checked, "eth0"),
		ok(addRoute("eth0", Route{To: net4("fd01::/48"), Via: netip.MustParseAddr("fd00:9::fe"), From: netip.MustParseAddr("fd00:9::2"), Metric: 1024}),
			Op{Verb: OpDeleteAddress, Link: "eth0", Address: net4("fd00:9::2/64")})), want: `
ethernets: {eth0: {addresses: ["fd00:9::1/64"], routes: [{to: "fd01::/48", via: "fd00:9::fe", from: "fd00:9::1"}]}}
`, shows: []string{"eth0 fd01::/48 via fd00:9::fe src fd00:9::1 metric 1024"}},
	{name: "link-local deleted", nics: 1, start: steps(ok(up("eth0")), happens(checked, "eth0"),
		ok(Op{Verb: OpDeleteAddress, Link: "eth0", Address: net4("fe80::ff:fe00:0/64")})), want: "ethernets: {eth0: {}}\n",
		shows: []string{"eth0 fe80::ff:fe00:0/64"}, never: []Verb{OpDown, OpUp, OpAddAddress}},
	{name: "a half change", nics: 1, start: happens(halfWayShut, "eth0"), want: nicWish + "    mtu: 1500\n", shows: nicShows},
	{name: "no link-local", nics: 1, start: ok(up("eth0")), want: `
ethernets:
  eth0: {link-local: [], addresses: [10.9.0.1/24]}
`, shows: []string{"eth0 10.9.0.1/24"}},
}
