package netcfg

import (
	"net/netip"
	"slices"
)

func (p *planner) bridgeDevice(l *link) []int {
	ports := p.ports(l.bridge.ports)
	d := p.wanted(l.id)
	if d == nil {
		d = p.createBridge(l, ports)
	} else {
		p.options(d, kindBridge, bridgeAttrs, l.bridge.options, d.Bridge)
	}
	p.shape(l, d)
	for _, c := range p.portsOf(d) {
		if !slices.Contains(ports, c.Index) {
			p.release(c, "the document has no such port")
		}
	}
	for _, id := range l.bridge.ports {
		for _, index := range p.ports([]string{id}) {
			p.bridgePort(p.ids[id], p.link(index), d)
		}
	}
	return p.finish(l, d)
}

// createBridge gives the bridge its first port's MAC, unless the document has
// one, so that it does not depend on which port came first or has the lowest.
func (p *planner) createBridge(l *link, ports []int) *LinkState {
	var settings []Setting
	for _, o := range bridgeAttrs {
		if v, ok := l.bridge.options[o.name]; ok {
			settings = append(settings, Setting{o.name, v})
		}
	}
	return p.create(l, Op{Settings: append(settings, p.firstPortMAC(l, ports)...)}, 1500)
}

// options writes what differs. What the state does not tell cannot be compared
// and is left alone.
func (p *planner) options(d *LinkState, kind deviceKind, table []bridgeAttr, want, have map[string]string) {
	for _, o := range table {
		v, ok := want[o.name]
		if h, told := have[o.name]; ok && told && h != v {
			p.do(Op{Verb: OpSet, Link: d.Name, Kind: string(kind), Settings: []Setting{{o.name, v}}, Why: itIs(h)})
		}
	}
}

// bridgePort makes c a port of bridge d: without addresses, which would answer
// for the bridge's network beside it. Unlike a bond's it may be up.
func (p *planner) bridgePort(l *link, c, d *LinkState) {
	p.flush(c.Index)
	have := c.BridgePort
	if c.Master != d.Index {
		p.do(Op{Verb: OpEnslave, Link: c.Name, Other: d.Name})
		c.Master = d.Index
		have = newBridgePort
	}
	p.options(c, kindBridgePort, brportAttrs, l.brport, have)
}

// newBridgePort is what the kernel gives a new port (new_nbp, net/bridge/
// br_if.c): a port with the path cost of its speed, which no value here equals.
var newBridgePort = map[string]string{
	"path_cost": "", "priority": "32", "hairpin_mode": "0", "learning": "1", "neigh_suppress": "0",
}

// asBridgePort is the wish for a link that is a bridge's port: IPv6 must not
// give it an address of its own.
func asBridgePort(l link) *link {
	l.linkLocal, l.token = false, netip.Addr{}
	return &l
}
