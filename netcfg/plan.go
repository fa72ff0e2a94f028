package netcfg

import (
	"cmp"
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
	board
	want    *Config
	ids     map[string]*link // the wish by id
	masters map[string]*link // id of a port -> the wanted link that it belongs to
	have    State            // as observed: nothing is played on it

	ops    []Op
	waits  []wait
	said   map[wait]bool
	downed map[int]bool            // links that this plan took down
	ruled  map[Rule]bool           // rules that are there or that this plan adds, also as of any priority
	nics   map[string][]int        // id of a wanted NIC -> indices of what it matches
	bound  map[int]bool            // the indices in nics
	fresh  int                     // index of the last device that the plan created, negative
	keep   map[routeKey]RouteState // the wanted ones, without an owner

	settings map[string]bool // keys of the kernel settings that were planned
}

func newPlanner(want *Config, have State) *planner {
	p := &planner{
		board: newBoard(have), want: want, have: have,
		ids:      make(map[string]*link, len(want.links)),
		masters:  map[string]*link{},
		said:     map[wait]bool{},
		nics:     map[string][]int{},
		bound:    map[int]bool{},
		downed:   map[int]bool{},
		ruled:    map[Rule]bool{},
		keep:     make(map[routeKey]RouteState, len(have.Routes)),
		settings: map[string]bool{},
	}
	for i := range want.links {
		l := &want.links[i]
		p.ids[l.id] = l
		if l.leaseOf != "" && p.ids[l.leaseOf] == nil {
			p.ids[l.leaseOf] = l // of the interfaces of an entry, the first stands for it
		}
		for _, port := range slices.Concat(l.bond.ports, l.bridge.ports) {
			p.masters[port] = l
		}
	}
	for _, h := range have.Rules {
		p.ruled[h.Rule], p.ruled[h.ofAnyPriority()] = true, true
	}
	return p
}

func (p *planner) run() {
	p.bindNICs()
	p.clearNames()
	p.renameNICs()
	p.altNames()
	p.globalSysctls()
	for i := range p.want.links {
		l := &p.want.links[i]
		for _, index := range p.device(l) {
			p.carrier(l, p.link(index))
			p.addresses(l, index)
			p.leases(l)
			p.linkRoutes(l, index)
		}
		p.rules(l)
	}
	inPlace := len(p.ops)
	p.retire()
	for i := range p.ops[inPlace:] {
		p.ops[inPlace+i].Retires = true
	}
	p.otherSysctls()
	p.resolvConf()
	p.hostsFile()
}

// carrier says what keeps addresses from working. A bridge without ports has no
// carrier because nobody wants it to have one.
func (p *planner) carrier(l *link, d *LinkState) {
	if !d.Carrier && !l.ignoreCarrier && !(l.kind == kindBridge && len(l.bridge.ports) == 0) {
		p.wait(l, waitCarrier, "no carrier")
	}
}

func (p *planner) do(op Op) { p.ops = append(p.ops, op) }

// device makes the link itself right, up to and including "up", and returns
// the indices of the interfaces that shall have its addresses and routes.
func (p *planner) device(l *link) []int {
	switch l.kind {
	case kindBond:
		return p.bondDevice(l)
	case kindBridge:
		return p.bridgeDevice(l)
	case kindVLAN:
		return p.vlanDevice(l)
	case kindDummy:
		return p.dummyDevice(l)
	}
	return p.nicDevice(l)
}

func (p *planner) dummyDevice(l *link) []int {
	d := p.named(l.name)
	if d == nil {
		d = p.create(l, Op{}, 1500)
	}
	p.shape(l, d)
	return p.finish(l, d)
}

func (p *planner) nicDevice(l *link) []int {
	indices := p.nics[l.id]
	if len(indices) > 1 && len(l.addresses)+len(l.routes) > 0 {
		p.wait(l, waitMatch, fmt.Sprintf("%d interfaces match, but only one can have its addresses", len(indices)))
		return nil
	}
	var out []int
	for _, index := range indices {
		d := p.link(index)
		p.shape(l, d)
		out = append(out, p.finish(l, d)...)
	}
	return out
}

// shape frees d of a master that it shall not have and gives it l's
// attributes. Those of a bond's port are the bond's business.
func (p *planner) shape(l *link, d *LinkState) {
	master := p.masters[l.id]
	if d.Master != 0 && (master == nil || p.wanted(master.id) == nil || p.wanted(master.id).Index != d.Master) {
		p.release(d, "it shall not be its master")
	}
	switch {
	case master == nil:
		p.attributes(l, d)
	case master.kind == kindBridge:
		p.attributes(asBridgePort(*l), d)
	}
}

// finish brings d up and says whether it gets l's addresses and routes: a port
// has none, and on a link that stays down they would not last.
func (p *planner) finish(l *link, d *LinkState) []int {
	master := p.masters[l.id]
	if master != nil && master.kind == kindBond {
		return nil // the bond brings it up, after it is a port
	}
	switch {
	case l.activation == activateOff:
		p.down(d, "the document wants it off")
	case l.activation == activateManual && !p.downed[d.Index]:
	default:
		p.up(d)
	}
	if master != nil || !d.Up {
		return nil
	}
	return []int{d.Index}
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
	return p.addLink(LinkState{
		Index: p.fresh, Name: l.name, Kind: string(l.kind), MAC: l.mac, MTU: mtu, IPv6MTU: mtu,
		AcceptRA: -1, UseTempAddr: -1, // the kernel's default for new devices: not ours to know
	})
}

// attributes sets the MTU first, because crossing 1280 removes or resets every
// IPv6 setting of the link; then the MAC, from which the link-local address
// comes; then the IPv6 settings, which must be right before the link is up.
func (p *planner) attributes(l *link, d *LinkState) {
	p.mtu(d, l.mtu)
	p.mac(l, d)
	p.wakeOnLAN(l, d)
	p.linkSysctls(d)
	if !d.NoIPv6 {
		p.ipv6(l, d)
	}
}

func (p *planner) mac(l *link, d *LinkState) {
	want := l.mac
	if l.macPerm {
		want = d.PermMAC // a device that we make has none
	}
	if want == "" || d.MAC == want {
		return
	}
	if d.Kind == "" && d.Name != "lo" {
		p.down(d, "to change its MAC") // many drivers refuse a live change (IFF_LIVE_ADDR_CHANGE)
	}
	p.set(d, "mac", want, d.MAC)
	d.MAC = want
}

// wakeOnLAN changes only what is known: a driver without it shows nothing.
func (p *planner) wakeOnLAN(l *link, d *LinkState) {
	if l.wakeOnLAN == nil {
		return
	}
	want := wakeOff
	if *l.wakeOnLAN {
		want = wakeMagic
	}
	switch {
	case d.WakeOnLAN == "" && *l.wakeOnLAN:
		p.wait(l, waitDriver, "its driver has no wake on LAN")
	case d.WakeOnLAN != "" && d.WakeOnLAN != want:
		p.set(d, "wake_on_lan", want, d.WakeOnLAN)
	}
}

// The words for what wakes a machine over a link; wakeOther is any other
// choice, such as broadcasts.
const (
	wakeOff   = "off"
	wakeMagic = "magic"
	wakeOther = "other"
)

// mtu sets the MTU and, of a bond, that of its ports with it, as the kernel does.
func (p *planner) mtu(d *LinkState, mtu int) {
	if mtu == 0 || d.MTU == mtu {
		return
	}
	p.set(d, "mtu", fmt.Sprint(mtu), fmt.Sprint(d.MTU))
	d.MTU, d.IPv6MTU = mtu, mtu
	if d.Kind == string(kindBond) {
		for _, port := range p.portsOf(d) {
			port.MTU = mtu
		}
	}
}

func (p *planner) set(d *LinkState, name, value, was string) {
	p.do(Op{Verb: OpSet, Link: d.Name, Settings: []Setting{{name, value}}, Why: itIs(was)})
}

func itIs(was string) string { return "is " + cmp.Or(was, "none") }

func (p *planner) up(d *LinkState) {
	if !d.Up {
		p.do(Op{Verb: OpUp, Link: d.Name})
		d.Up = true
	}
}

// down costs the link its IPv6 addresses (but for keep_addr_on_down, which the
// next pass finds out) and its routes.
func (p *planner) down(d *LinkState, why string) {
	if !d.Up {
		return
	}
	p.do(Op{Verb: OpDown, Link: d.Name, Why: why})
	d.Up, p.downed[d.Index] = false, true
	p.dropAddresses(d.Index, func(a AddressState) bool { return a.Prefix.Addr().Is6() })
	p.dropRoutes(d.Index)
}

// release takes a port from its master. Bonding leaves the port down.
func (p *planner) release(d *LinkState, why string) {
	master := p.link(d.Master)
	name := fmt.Sprintf("index %d", d.Master)
	if master != nil {
		name = master.Name
	}
	p.do(Op{Verb: OpRelease, Link: d.Name, Other: name, Why: why})
	d.Master = 0
	if master == nil || master.Kind == string(kindBond) {
		d.Up = false
	}
}

// resolvConf is not touched when the document names no server: an empty file
// is worse than a foreign one.
func (p *planner) resolvConf() {
	if p.have.ResolvConf == nil || len(p.want.dns().servers) == 0 {
		return
	}
	if text := p.want.dns().resolvConf(); text != *p.have.ResolvConf {
		p.do(Op{Verb: OpResolvConf, File: text})
	}
}
