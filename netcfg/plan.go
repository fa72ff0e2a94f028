package netcfg

import (
	"fmt"
	"slices"
)

// Plan is the operations that turn have into want, in an order that the kernel
// accepts; none when have is what is wanted. It is pure and deterministic.
//
// Devices come before their children, and a device is finished, addresses and
// routes included, before the next one starts, so that a refusal on one vlan
// does not keep the bond below it from its addresses. Where an operation has
// effects that only the kernel knows (a link that went down lost its routes),
// the next observation and plan put things right.
func Plan(want *Config, have State) []Op {
	ops, _ := plan(want, have)
	return ops
}

// Waits is what want lacks in have that no operation can bring, such as a NIC
// that is not in the machine.
func Waits(want *Config, have State) []Wait {
	_, waits := plan(want, have)
	return plainWaits(waits)
}

// planner collects operations and plays their plain effects on its own copy of
// the state, so that later operations see earlier ones.
type planner struct {
	want  *Config
	have  State
	ops   []Op
	waits []wait
	nics  map[string][]int // id of a wanted NIC -> indices of what it matches
	fresh int              // index of the last device that the plan created, negative
	// With thousands of routes, scanning the list for each wish takes seconds.
	routes map[routeKey][]RouteState
	keep   map[RouteState]bool // the wanted ones, without an owner
}

func newPlanner(want *Config, have State) *planner {
	have.Links = slices.Clone(have.Links)
	have.Addresses = slices.Clone(have.Addresses)
	p := &planner{want: want, have: have, routes: map[routeKey][]RouteState{}, keep: map[RouteState]bool{}}
	for _, r := range have.Routes {
		p.routes[r.key()] = append(p.routes[r.key()], r)
	}
	return p
}

func (p *planner) run() {
	p.bindNICs()
	p.clearNames()
	p.renameNICs()
	for i := range p.want.links {
		l := &p.want.links[i]
		for _, index := range p.device(l) {
			if !p.have.link(index).Carrier {
				p.wait(l, waitCarrier, "no carrier")
			}
			p.addresses(l, index)
			p.linkRoutes(l, index)
		}
	}
	p.retire()
	p.resolvConf()
}

func (p *planner) do(op Op) { p.ops = append(p.ops, op) }

// device makes the link itself right, up to and including "up", and returns
// the indices of the interfaces that shall have its addresses and routes.
func (p *planner) device(l *link) []int {
	switch l.kind {
	case kindBond:
		return p.bondDevice(l)
	case kindVLAN:
		return p.vlanDevice(l)
	case kindDummy:
		return p.dummyDevice(l)
	}
	return p.nicDevice(l)
}

func (p *planner) dummyDevice(l *link) []int {
	d := p.have.named(l.name)
	if d == nil {
		d = p.create(l, Op{}, 1500)
	}
	if p.want.bondOf(l.id) != nil {
		return nil
	}
	p.attributes(l, d)
	p.up(d)
	return []int{d.Index}
}

func (p *planner) nicDevice(l *link) []int {
	if p.want.bondOf(l.id) != nil {
		return nil // it is the bond's business
	}
	indices := p.nics[l.id]
	if len(indices) > 1 && len(l.addresses)+len(l.routes) > 0 {
		p.wait(l, waitMatch, fmt.Sprintf("%d interfaces match, but only one can have its addresses", len(indices)))
		return nil
	}
	for _, index := range indices {
		d := p.have.link(index)
		if d.Master != 0 {
			p.release(d)
		}
		p.attributes(l, d)
		p.up(d)
	}
	return indices
}

// create plans a device that does not exist and returns its stand-in. mtu is
// what the kernel will give it.
func (p *planner) create(l *link, op Op, mtu int) *LinkState {
	op.Verb, op.Link, op.Kind = OpCreate, l.name, string(l.kind)
	if l.mac != "" {
		op.Settings = append(op.Settings, Setting{"mac", l.mac})
	}
	p.do(op)
	p.fresh--
	p.have.Links = append(p.have.Links, LinkState{
		Index: p.fresh, Name: l.name, Kind: string(l.kind), MAC: l.mac, MTU: mtu,
		AcceptRA: -1, // the kernel's default for new devices: not ours to know
	})
	return &p.have.Links[len(p.have.Links)-1]
}

// The values of accept_ra and addr_gen_mode (Documentation/networking/
// ip-sysctl.rst). 2 accepts router advertisements even when forwarding: with 1
// the default route dies of old age as soon as something turns forwarding on.
const (
	acceptRAOff    = 0
	acceptRAAlways = 2
	addrGenEUI64   = 0
	addrGenNone    = 1
)

// attributes sets the MTU first, because crossing 1280 removes or resets every
// IPv6 setting of the link; then the MAC, from which the link-local address
// comes; then the IPv6 settings, which must be right before the link is up.
func (p *planner) attributes(l *link, d *LinkState) {
	p.mtu(d, l.mtu)
	if l.mac != "" && d.MAC != l.mac {
		if d.Kind == "" && d.Name != "lo" {
			p.down(d) // many drivers refuse a live change (IFF_LIVE_ADDR_CHANGE)
		}
		p.set(d, "mac", l.mac)
		d.MAC = l.mac
	}
	if d.NoIPv6 {
		return
	}
	if l.wantsIPv6() && d.DisableIPv6 {
		p.set(d, "disable_ipv6", "0")
	}
	if l.acceptRA != nil {
		want := acceptRAOff
		if *l.acceptRA {
			want = acceptRAAlways
		}
		if d.AcceptRA != want {
			p.set(d, "accept_ra", fmt.Sprint(want))
		}
	}
	switch {
	case !l.linkLocal && d.AddrGenMode != addrGenNone:
		p.set(d, "addr_gen_mode", fmt.Sprint(addrGenNone))
	case l.linkLocal && d.AddrGenMode == addrGenNone:
		p.set(d, "addr_gen_mode", fmt.Sprint(addrGenEUI64))
	}
}

// mtu sets the MTU and, of a bond, that of its ports with it, as the kernel does.
func (p *planner) mtu(d *LinkState, mtu int) {
	if mtu == 0 || d.MTU == mtu {
		return
	}
	p.set(d, "mtu", fmt.Sprint(mtu))
	d.MTU = mtu
	if d.Kind == string(kindBond) {
		for i := range p.have.Links {
			if p.have.Links[i].Master == d.Index {
				p.have.Links[i].MTU = mtu
			}
		}
	}
}

func (p *planner) set(d *LinkState, name, value string) {
	p.do(Op{Verb: OpSet, Link: d.Name, Settings: []Setting{{name, value}}})
}

func (p *planner) up(d *LinkState) {
	if !d.Up {
		p.do(Op{Verb: OpUp, Link: d.Name})
		d.Up = true
	}
}

// down costs the link its IPv6 addresses (but for keep_addr_on_down, which the
// next pass finds out) and its routes.
func (p *planner) down(d *LinkState) {
	if !d.Up {
		return
	}
	p.do(Op{Verb: OpDown, Link: d.Name})
	d.Up = false
	p.have.Addresses = slices.DeleteFunc(p.have.Addresses, func(a AddressState) bool {
		return a.Link == d.Index && a.Prefix.Addr().Is6()
	})
	p.forgetRoutes(d.Index)
}

// release takes a port from its master. Bonding leaves the port down.
func (p *planner) release(d *LinkState) {
	master := p.have.link(d.Master)
	name := fmt.Sprintf("index %d", d.Master)
	if master != nil {
		name = master.Name
	}
	p.do(Op{Verb: OpRelease, Link: d.Name, Other: name})
	d.Master = 0
	if master == nil || master.Kind == string(kindBond) {
		d.Up = false
	}
}

// resolvConf is not touched when the document names no server: an empty file
// is worse than a foreign one.
func (p *planner) resolvConf() {
	if p.have.ResolvConf == nil || len(p.want.dns.servers) == 0 {
		return
	}
	if text := p.want.dns.resolvConf(); text != *p.have.ResolvConf {
		p.do(Op{Verb: OpResolvConf, File: text})
	}
}
