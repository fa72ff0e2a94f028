package netcfg

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Any wish, from any state, through any interruption: converged in at most
// four passes, and then not a single write.
func TestAnyWishFromAnyState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		wish := drawWish(t)
		cfg, err := Parse("wish.yaml", []byte(wish))
		if err != nil {
			t.Fatalf("the generator wrote a document that does not compile: %v\n%s", err, wish)
		}
		f := newFake(nil).(*fake)
		for i := range 3 {
			if err := f.AddNIC(fmt.Sprintf("eth%d", i), fmt.Sprintf("02:00:00:00:00:%02x", i)); err != nil {
				t.Fatal(err)
			}
		}
		drawHistory(t, f)
		start := show(f.state)

		f.budget = rapid.IntRange(0, 40).Draw(t, "operations until the power cut")
		r := New(cfg, quiet(), Options{})
		if _, err := r.passes(bg, f, &Report{}); err != nil && !errors.Is(err, errPower) {
			t.Fatalf("%v\n%s\nfrom %s", err, wish, start)
		}
		f.budget = -1
		mess(t, f)

		// DAD takes seconds, not passes: routes that need its outcome come after.
		for quietRounds := 0; quietRounds < 2; quietRounds++ {
			var report Report
			if _, err := New(cfg, quiet(), Options{}).passes(bg, f, &report); err != nil || report.Passes > 4 {
				t.Fatalf("%d passes, %v\n%v\n%s\nfrom %s", report.Passes, err, report.Ops, wish, start)
			}
			if report.Writes > 0 {
				quietRounds = 0
			}
			f.wait()
		}
		before := f.applied
		var report Report
		if _, err := New(cfg, quiet(), Options{}).passes(bg, f, &report); err != nil || f.applied != before {
			t.Fatalf("not idempotent: %v %v", report.Ops, err)
		}
		reached(t, cfg, f)
	})
}

// reached checks the outcome without the planner's help.
func reached(t *rapid.T, cfg *Config, f *fake) {
	for _, l := range cfg.links {
		d := f.state.named(l.name)
		if d == nil || l.kind == kindNIC && !l.means(d) {
			continue // it is waited for
		}
		if l.activation == activateManual && !d.Up || l.onDownLink(cfg, f) {
			continue
		}
		if d.Up == (l.activation == activateOff) || l.mtu != 0 && d.MTU != l.mtu {
			t.Fatalf("%s: up %v, mtu %d", l.id, d.Up, d.MTU)
		}
		if !d.Up {
			continue
		}
		if wantsOwn := l.linkLocal && cfg.masterOf(l.id) == nil && !d.lacksIPv6(); wantsOwn && f.carrier(d) && !f.hasLinkLocal(d) {
			t.Fatalf("%s has no link-local address:%s", l.id, show(f.state))
		}
		for _, p := range l.addresses {
			if p.Addr().Is6() && d.NoIPv6 {
				continue // an MTU that the wish does not mention is too small
			}
			if !slices.ContainsFunc(f.state.Addresses, func(a AddressState) bool {
				return a.Link == d.Index && a.Prefix == p.Prefix && !a.Dynamic
			}) {
				t.Fatalf("%s has no %s:%s", l.id, p.Prefix, show(f.state))
			}
		}
		for i, port := range slices.Concat(l.bond.ports, l.bridge.ports) {
			c := f.state.named(cfg.find(port).name)
			if c != nil && cfg.find(port).means(c) && c.Master != d.Index {
				t.Fatalf("port %d of %s is not enslaved:%s", i, l.id, show(f.state))
			}
		}
	}
}

// masterOf is the bond or bridge of the document that has the link as a port.
func (c *Config) masterOf(id string) *link {
	for i := range c.links {
		if l := &c.links[i]; slices.Contains(slices.Concat(l.bond.ports, l.bridge.ports), id) {
			return l
		}
	}
	return nil
}

func (f *fake) hasLinkLocal(d *LinkState) bool {
	return slices.ContainsFunc(f.state.Addresses, func(a AddressState) bool {
		return a.Link == d.Index && a.Prefix.Addr().Is6() && a.Prefix.Addr().IsLinkLocalUnicast()
	})
}

// onDownLink reports whether the link is a vlan of something that is down.
func (l *link) onDownLink(cfg *Config, f *fake) bool {
	if l.kind != kindVLAN {
		return false
	}
	parent := f.state.named(cfg.find(l.vlan.parent).name)
	return parent == nil || !parent.Up
}

func pick[T any](t *rapid.T, what string, from ...T) T { return rapid.SampledFrom(from).Draw(t, what) }

// drawWish writes a document with up to three NICs, bonds, bridges, vlans on
// all of them and on vlans, and a dummy.
func drawWish(t *rapid.T) string {
	w := &wishWriter{t: t, free: []string{"10.0.0.1/24", "10.0.0.2/24", "10.1.0.1/16", "fd00::1/64", "fd00::2/64", "fd00:1::1/64"}}
	w.b.WriteString("version: 2\nethernets:\n")
	inBond, inBridge := rapid.IntRange(0, 2).Draw(t, "ports"), rapid.Bool().Draw(t, "bridge")
	for i := range 3 {
		w.nic(i, i < inBond, i == 2 && inBridge)
	}
	var tops []string
	if inBond > 0 {
		w.b.WriteString("bonds:\n")
		ports := []string{"n0", "n1"}[:inBond]
		w.line("bond0", fmt.Sprintf("interfaces: [%s], parameters: {%s}, ", strings.Join(ports, ", "), drawBond(t)))
		tops = append(tops, "bond0")
	}
	if rapid.Bool().Draw(t, "dummy") {
		w.b.WriteString("dummy-devices:\n")
		w.line("dum0", "")
		tops = append(tops, "dum0")
	}
	if inBridge {
		w.b.WriteString("bridges:\n")
		w.line("br0", fmt.Sprintf("interfaces: [n2], parameters: {%s}, ", drawBridge(t)))
		tops = append(tops, "br0")
	}
	if len(tops) > 0 && rapid.Bool().Draw(t, "vlans") {
		w.b.WriteString("vlans:\n")
		ids := rapid.Permutation([]int{1, 2, 3}).Draw(t, "vlan ids")
		for i := range rapid.IntRange(1, 3).Draw(t, "number of vlans") {
			fmt.Fprintf(&w.b, "  v%d: {id: %d, link: %s}\n", i, ids[i], pick(t, "parent", tops...))
			tops = append(tops, fmt.Sprintf("v%d", i))
		}
	}
	return w.b.String()
}

// wishWriter hands out each address once, so that no two links have it.
type wishWriter struct {
	t    *rapid.T
	b    strings.Builder
	free []string
}

func (w *wishWriter) line(name, special string) {
	fmt.Fprintf(&w.b, "  %s: {%s%s}\n", name, special, drawCommon(w.t, &w.free))
}

func (w *wishWriter) nic(i int, bonded, bridged bool) {
	match := fmt.Sprintf("match: {macaddress: '02:00:00:00:00:%02x'}, set-name: nic%d, ", i, i)
	switch {
	case bonded:
		fmt.Fprintf(&w.b, "  n%d: {%s}\n", i, match)
	case bridged:
		fmt.Fprintf(&w.b, "  n%d: {%s%s}\n", i, match, pick(w.t, "port", "", "mtu: 1400, ", "hairpin: true"))
	case rapid.Bool().Draw(w.t, "match"):
		w.line(fmt.Sprintf("n%d", i), match)
	default:
		w.line(fmt.Sprintf("eth%d", i), pick(w.t, "activation", "", "", "activation-mode: manual, ", "activation-mode: 'off', "))
	}
}

func drawBridge(t *rapid.T) string {
	return pick(t, "bridge parameters", "stp: false", "stp: false, forward-delay: 0", "stp: true, forward-delay: 4, priority: 8",
		"hello-time: 1, max-age: 8, ageing-time: 5", "path-cost: {n2: 9}, port-priority: {n2: 3}")
}

func drawBond(t *rapid.T) string {
	return pick(t, "bond parameters",
		"mode: active-backup",
		"mode: active-backup, fail-over-mac-policy: active, mii-monitor-interval: 200, up-delay: 400",
		"mode: 802.3ad, lacp-rate: fast, min-links: 1",
		"mode: 802.3ad, ad-select: bandwidth, transmit-hash-policy: layer3+4",
		"mode: balance-xor, transmit-hash-policy: layer2+3",
		"mode: active-backup, arp-interval: 100, arp-ip-targets: [10.0.0.9]",
		"mode: balance-alb")
}

// drawCommon takes addresses from the pool and writes routes that they allow.
func drawCommon(t *rapid.T, free *[]string) string {
	var keys []string
	if mtu := pick(t, "mtu", 0, 0, 1400, 9000); mtu != 0 {
		keys = append(keys, fmt.Sprintf("mtu: %d", mtu))
	}
	if rapid.Bool().Draw(t, "accept-ra given") {
		keys = append(keys, fmt.Sprintf("accept-ra: %v", rapid.Bool().Draw(t, "accept-ra")))
	}
	if rapid.Bool().Draw(t, "no link-local") {
		keys = append(keys, "link-local: []")
	}
	if more := pick(t, "IPv6", "", "", "ipv6-privacy: true", "ipv6-address-generation: eui64", "ipv6-address-generation: stable-privacy",
		"accept-ra: true, ipv6-address-token: '::5'", "ipv6-mtu: 1300"); more != "" && !(strings.Contains(more, "accept") && len(keys) > 0) {
		keys = append(keys, more)
	}
	var addresses, routes []string
	for range rapid.IntRange(0, min(3, len(*free))).Draw(t, "addresses") {
		i := rapid.IntRange(0, len(*free)-1).Draw(t, "address")
		p := netip.MustParsePrefix((*free)[i])
		*free = slices.Delete(*free, i, i+1)
		addresses = append(addresses, "'"+p.String()+"'"+pick(t, "life", "", "", ": {lifetime: 0}"))
		if rapid.Bool().Draw(t, "route") {
			from := pick(t, "from", "", ", from: '"+p.Addr().String()+"'")
			// One destination for each address, so that no two collide.
			to := map[bool]string{true: fmt.Sprintf("10.%d.0.0/16", 100+len(*free)), false: fmt.Sprintf("fd00:%d::/48", 100+len(*free))}[p.Addr().Is4()]
			routes = append(routes, pick(t, "kind of route",
				fmt.Sprintf("{to: '%s', via: '%s'%s}", to, p.Addr().Next().Next().Next(), from),
				fmt.Sprintf("{to: '%s', via: '%s', mtu: 1300, advertised-mss: 900, table: 9}", to, p.Addr().Next().Next().Next()),
				fmt.Sprintf("{to: '%s', type: %s}", to, pick(t, "type", "blackhole", "unreachable", "throw"))))
		}
	}
	if len(addresses) > 0 {
		keys = append(keys, "addresses: ["+strings.Join(addresses, ", ")+"]")
	}
	if rapid.Bool().Draw(t, "rule") {
		keys = append(keys, "routing-policy: ["+pick(t, "which rule", "{from: 10.0.0.0/8, table: 9}", "{to: 10.0.0.0/8, table: 9, priority: 7}", "{from: 'fd00::/16', table: 8, mark: 3}")+"]")
	}
	if len(routes) > 0 {
		keys = append(keys, "routes: ["+strings.Join(routes, ", ")+"]")
	}
	return strings.Join(keys, ", ")
}

// drawHistory is what others did before: operations of our own vocabulary,
// some of which the kernel refuses.
func drawHistory(t *rapid.T, f *fake) {
	names := []string{"eth0", "eth1", "eth2", "bond0", "br0", "dum0", "v0", "v1", "nic0", "nic1", "rename1", "other"}
	name := func() string { return pick(t, "name", names...) }
	prefixes := []string{"10.0.0.1/24", "10.0.0.1/16", "10.0.0.2/24", "10.0.0.3/24", "fd00::1/64", "fd00::1/48", "fd00::2/64", "fd00:2::2/64"}
	for range rapid.IntRange(0, 25).Draw(t, "history") {
		var op Op
		switch rapid.IntRange(0, 16).Draw(t, "kind of operation") {
		case 0:
			op = mk("bond", name(), "mode", pick(t, "mode", bondModes...))
		case 1:
			op = mk("dummy", name())
		case 2:
			op = mkVLAN(name(), name(), rapid.IntRange(1, 3).Draw(t, "id"))
		case 3, 4:
			op = up(name())
		case 5:
			op = enslave(name(), pick(t, "master", "bond0", "br0", "other"))
		case 6:
			op = rename(name(), name())
		case 7:
			op = set(name(), "mtu", pick(t, "mtu", "1000", "1500", "2000", "9000"))
		case 8:
			op = set(name(), pick(t, "sysctl", "accept_ra", "disable_ipv6", "addr_gen_mode", "use_tempaddr"), pick(t, "value", "0", "1"))
		case 9, 10:
			op = addr(name(), pick(t, "prefix", prefixes...))
		case 11:
			op = route4(name(), pick(t, "to", "10.100.0.0/16", "10.103.0.0/16", "0.0.0.0/0"), "10.0.0.9", 0)
		case 12:
			op = mk("bridge", name(), "stp_state", pick(t, "stp", "0", "1"), "priority", "9")
		case 13:
			op = setOf(pick(t, "of", "bridge", "bridge port"), name(), pick(t, "option", "forward_delay", "priority", "path_cost", "stp_state"), pick(t, "value", "0", "1", "300"))
		case 14:
			r := Rule{Table: pick(t, "table", 8, 9), Priority: pick(t, "priority", -1, 7, 8)}
			r.From = pick(t, "from", netip.Prefix{}, net4("10.0.0.0/8"))
			op = addRule(r)
		case 15:
			op = addRoute("", Route{To: net4(pick(t, "to", "10.100.0.0/16", "10.103.0.0/16")), Type: pick(t, "type", "blackhole", "throw")})
		case 16:
			op = set(name(), pick(t, "setting", "stable_secret", "token", "mac"), pick(t, "value", "::7", "02:00:00:00:00:99"))
		}
		_ = f.Apply(bg, op) // refused or not, it is history
		if rapid.IntRange(0, 9).Draw(t, "time passes") == 0 {
			f.wait()
		}
	}
}

// mess changes what no operation of ours can: owners, lifetimes, DAD, names.
func mess(t *rapid.T, f *fake) {
	for i := range f.state.Addresses {
		a := &f.state.Addresses[i]
		a.Proto = pick(t, "owner", 0, ownProto, a.Proto)
		if a.Dynamic = rapid.IntRange(0, 4).Draw(t, "dynamic") == 0; a.Dynamic {
			a.Preferred, a.Valid = 600, 1200
		}
		a.DADFailed = a.Prefix.Addr().Is6() && rapid.IntRange(0, 4).Draw(t, "dad failed") == 0
	}
	if rapid.IntRange(0, 4).Draw(t, "link-local addresses deleted") == 0 {
		f.state.Addresses = slices.DeleteFunc(f.state.Addresses, func(a AddressState) bool {
			return a.Prefix.Addr().Is6() && a.Prefix.Addr().IsLinkLocalUnicast()
		})
	}
	for i := range f.state.Routes {
		f.state.Routes[i].Proto = pick(t, "owner", 3, ownProto)
	}
	for i := range f.state.Rules {
		f.state.Rules[i].Proto = pick(t, "owner", 3, ownProto)
	}
	if len(f.state.Links) > 0 && !f.taken("bond0") && rapid.Bool().Draw(t, "alternative name") {
		l := &f.state.Links[0]
		l.AltNames = append(l.AltNames, "bond0")
	}
}
