package netcfg

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The contract between the planner and a kernel: the same start states and the
// same refusals on the fake, which runs everywhere, and on the real kernel,
// where its modules exist (kernel_linux_test.go).

// lab is a network to experiment with.
type lab interface {
	network
	// AddNIC plugs in a NIC that has carrier when it is up.
	AddNIC(name, mac string) error
	// happen does what no operation of ours does; see event.
	happen(t testing.TB, what event, link string)
	// events says when to look again; nil for a lab where nothing moves.
	events(testing.TB) <-chan struct{}
}

// step is an operation that somebody else did before us, and its outcome, or
// an event.
type step struct {
	op    Op
	errs  error
	event event
	link  string
}

// event is what happens to a link otherwise than by an operation of ours.
type event string

const (
	altName     event = "gets the alternative name bond0"
	unplug      event = "loses its carrier"
	move        event = "comes from another network namespace"
	checked     event = "has its addresses checked for duplicates"
	optimistic  event = "uses addresses before they are checked"
	keepOnDown  event = "keeps its addresses when it is down"
	allForbidRA event = "sees accept_ra switched off for all"
	routeOfRA   event = "has a default route of a router advertisement"
	halfWayShut event = "gets two changes in one message, the second of which is refused"
)

func happens(what event, link string) []step { return []step{{event: what, link: link}} }

type scenario struct {
	name  string
	nics  int // eth0, eth1, ... with MACs 02:00:00:00:00:00, ...:01
	start []step
	want  string // netplan, without the wrapper and the version
	shows []string
	never []Verb // what must not be done on the way
	waits string // the start of what is still waited for, "" for anything
}

func ok(ops ...Op) []step {
	var out []step
	for _, op := range ops {
		out = append(out, step{op: op})
	}
	return out
}

func refused(err error, op Op) []step { return []step{{op: op, errs: err}} }

func steps(lists ...[]step) []step { return slices.Concat(lists...) }

func mk(kind, name string, settings ...string) Op {
	op := Op{Verb: OpCreate, Kind: kind, Link: name}
	for i := 0; i < len(settings); i += 2 {
		op.Settings = append(op.Settings, Setting{settings[i], settings[i+1]})
	}
	return op
}

func mkVLAN(name, parent string, id int) Op {
	return Op{Verb: OpCreate, Kind: "vlan", Link: name, Other: parent, Settings: []Setting{{"id", fmt.Sprint(id)}}}
}

func up(link string) Op              { return Op{Verb: OpUp, Link: link} }
func downOp(link string) Op          { return Op{Verb: OpDown, Link: link} }
func enslave(link, master string) Op { return Op{Verb: OpEnslave, Link: link, Other: master} }
func set(link, name, value string) Op {
	op := Op{Verb: OpSet, Link: link, Settings: []Setting{{name, value}}}
	if bondOptionNamed(name) != nil {
		op.Kind = "bond"
	}
	return op
}
func rename(link, name string) Op { return Op{Verb: OpRename, Link: link, Other: name} }
func addr(link, prefix string) Op {
	return Op{Verb: OpAddAddress, Link: link, Address: netip.MustParsePrefix(prefix)}
}
func route4(link, to, via string, metric int) Op {
	r := Route{To: netip.MustParsePrefix(to), Table: mainTable, Metric: metric}
	if via != "" {
		r.Via = netip.MustParseAddr(via)
	} else {
		r.Scope = scopeLink
	}
	return Op{Verb: OpAddRoute, Link: link, Route: r}
}

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

func renamed(shows []string, old, name string) []string {
	var out []string
	for _, s := range shows {
		out = append(out, strings.ReplaceAll(s, old, name))
	}
	return out
}

func always(int, int) bool { return true }

func quiet() *slog.Logger { return slog.New(slog.NewTextHandler(io.Discard, nil)) }

func compileWish(t testing.TB, wish string) *Config {
	t.Helper()
	cfg, err := Parse("wish.yaml", []byte("version: 2\n"+wish))
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// prepare plugs in the NICs and does the scenario's first steps.
func (s scenario) prepare(t testing.TB, l lab) {
	t.Helper()
	for i := range s.nics {
		if err := l.AddNIC(fmt.Sprintf("eth%d", i), fmt.Sprintf("02:00:00:00:00:%02x", i)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.Observe(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, st := range s.start {
		if st.event != "" {
			l.happen(t, st.event, st.link)
			continue
		}
		if err := l.Apply(t.Context(), st.op); !errors.Is(err, st.errs) {
			t.Fatalf("%s: %v, want %v", st.op, err, st.errs)
		}
	}
}

// run converges from the scenario's start, then again without a write, and once
// more for each operation after which the first try shall have died.
func (s scenario) run(t *testing.T, open func(testing.TB) lab, kills func(op, of int) bool) {
	cfg := compileWish(t, s.want)
	l := open(t)
	s.prepare(t, l)
	var report Report
	r := New(cfg, quiet(), Options{})
	if _, err := r.passes(t.Context(), l, &report); err != nil {
		t.Fatalf("%v\nafter %v", err, report.Ops)
	}
	if report.Passes > 4 {
		t.Errorf("%d passes:\n%v", report.Passes, report.Ops)
	}
	for _, op := range report.Ops {
		adds := []Verb{OpCreate, OpUp, OpRename, OpDropAltName, OpEnslave, OpAddAddress, OpAddRoute, OpAddRule}
		if op.Why == "" && !slices.Contains(adds, op.Verb) {
			t.Errorf("no reason given for %s", op)
		}
		if slices.Contains(s.never, op.Verb) {
			t.Errorf("not the least disruptive way: %s, in %v", op, report.Ops)
		}
	}
	if s.waits != "" && !slices.ContainsFunc(report.Waits, func(w Wait) bool { return strings.HasPrefix(w.Reason, s.waits) }) {
		t.Errorf("waits for %v, not because of %q", report.Waits, s.waits)
	}
	s.check(t, r, l)
	for i := range report.Ops {
		if !kills(i, len(report.Ops)) {
			continue
		}
		l := open(t)
		s.prepare(t, l)
		for _, op := range report.Ops[:i] {
			if err := l.Apply(t.Context(), op); err != nil {
				break // the report spans passes; an early end is as good
			}
		}
		s.check(t, New(cfg, quiet(), Options{}), l)
	}
}

// check converges, finds nothing to do in the next pass, and compares the
// result with what the scenario expects to see.
func (s scenario) check(t *testing.T, r *Reconciler, l lab) {
	t.Helper()
	ev := l.events(t)
	patience := time.After(5 * time.Second)
	for {
		var report Report
		if _, err := r.passes(t.Context(), l, &report); err != nil || report.Passes > 4 {
			t.Fatalf("%d passes, %v\nafter %v", report.Passes, err, report.Ops)
		}
		missing, got := s.missing(t, l)
		if len(missing) == 0 {
			break
		}
		select { // a kernel does more by itself: a new carrier has consequences
		case <-ev:
			continue
		case <-patience:
		}
		t.Fatalf("no %q in:%s", missing, got)
	}
	var again Report
	if _, err := r.passes(t.Context(), l, &again); err != nil || again.Writes != 0 {
		t.Fatalf("second run: %d writes, %v: %v", again.Writes, err, again.Ops)
	}
}

// missing is what the scenario expects and the lab does not show.
func (s scenario) missing(t *testing.T, l lab) (missing []string, got string) {
	t.Helper()
	have, err := l.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	got = show(have)
	for _, line := range s.shows {
		if !strings.Contains(got, "\n"+line) {
			missing = append(missing, line)
		}
	}
	return missing, got
}

// show is a state as sorted lines; links of the lab's own are left out.
func show(s State) string {
	name := func(index int) string {
		if l := s.link(index); l != nil {
			return l.Name
		}
		return fmt.Sprint(index)
	}
	var lines []string
	for _, l := range s.Links {
		if strings.HasPrefix(l.Name, "peer") || l.Name == "lo" {
			continue
		}
		line := l.Name
		if l.Kind != "" && l.Kind != "veth" {
			line += " " + l.Kind
		}
		line += map[bool]string{true: " up", false: " down"}[l.Up] + fmt.Sprintf(" mtu %d", l.MTU)
		if l.Kind == "vlan" {
			line += fmt.Sprintf(" id %d on %s", l.VLAN, name(l.Parent))
		}
		if l.Kind == "bridge" {
			for _, o := range bridgeAttrs {
				if v, ok := l.Bridge[o.name]; ok {
					line += " " + o.name + " " + v
				}
			}
		}
		if l.Kind == "bond" {
			line += " mode " + l.Bond["mode"] + " miimon " + l.Bond["miimon"]
			if p := l.Bond["primary"]; p != "" {
				line += " primary " + p
			}
		}
		if l.Master != 0 {
			line += " in " + name(l.Master)
			for _, o := range brportAttrs[:2] {
				if v, ok := l.BridgePort[o.name]; ok {
					line += " " + o.name + " " + v
				}
			}
		}
		line += showIPv6(l)
		lines = append(lines, line)
	}
	for _, a := range s.Addresses {
		line := name(a.Link) + " " + a.Prefix.String()
		if a.Label != "" {
			line += " " + a.Label
		}
		if a.Deprecated {
			line += " deprecated"
		}
		if a.Dynamic {
			line += " dynamic"
		}
		lines = append(lines, line)
	}
	for _, r := range s.Routes {
		if r.Proto == ownProto {
			line := r.Route.where() + r.Route.how()
			if r.Link != 0 {
				line = name(r.Link) + " " + line
			}
			lines = append(lines, line)
		} else if r.Proto == protoRA {
			lines = append(lines, name(r.Link)+" foreign "+r.Route.where()+r.Route.how())
		}
	}
	for _, r := range s.Rules {
		if r.Proto == ownProto {
			lines = append(lines, "rule "+r.Rule.String())
		}
	}
	slices.Sort(lines)
	return "\n" + strings.Join(lines, "\n") + "\n"
}

// showIPv6 is what a link has otherwise than by default.
func showIPv6(l LinkState) string {
	s := ""
	if l.AcceptRA != 1 {
		s += fmt.Sprint(" ra ", l.AcceptRA)
		s += fmt.Sprint(" temp ", l.UseTempAddr)
	}
	if l.AddrGenMode != genByMAC {
		s += fmt.Sprint(" gen ", l.AddrGenMode)
	}
	if l.Token.IsValid() {
		s += " token " + l.Token.String()
	}
	if l.IPv6MTU != l.MTU && l.IPv6MTU != 0 {
		s += fmt.Sprint(" mtu6 ", l.IPv6MTU)
	}
	return s
}

var bg = context.Background()
