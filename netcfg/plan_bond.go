package netcfg

import (
	"fmt"
	"slices"
	"strings"
)

// wish is what the option shall be: the document's value or the driver's
// default; ok is false for an option that the bond's mode does not have.
func (o *bondOption) wish(want BondOptions) (value string, ok bool) {
	if o.modes != "" && !slices.Contains(strings.Fields(o.modes), want["mode"]) {
		return "", false
	}
	if v, set := want[o.name]; set {
		return v, true
	}
	return o.def, o.def != unmanaged
}

func (p *planner) bondDevice(l *link) []int {
	ports := p.ports(l.bond.ports)
	d := p.wanted(l.id)
	if d == nil {
		d = p.createBond(l, ports)
	} else {
		p.bondOptions(l, d)
	}
	if l.mac != "" && d.MAC != l.mac {
		p.releaseAll(d, "to change its MAC") // a live change fails half-way when a port's driver refuses it
	}
	p.shape(l, d)
	for _, c := range p.portsOf(d) {
		if !slices.Contains(ports, c.Index) {
			p.release(c, "the document has no such port")
		}
	}
	for _, index := range ports {
		p.port(p.link(index), d)
	}
	p.primary(l, d)
	return p.finish(l, d)
}

// ports is the indices of the wanted ports that exist, in the document's order.
func (p *planner) ports(ids []string) []int {
	var out []int
	for _, id := range ids {
		if port := p.ids[id]; port.kind == kindNIC {
			out = append(out, p.nics[id]...)
		} else if d := p.wanted(id); d != nil {
			out = append(out, d.Index)
		}
	}
	return out
}

// createBond sends only what the document has: the driver refuses the whole
// bond for an attribute that its mode does not know, even a zero. Without a
// MAC in the document the bond gets its first port's for good, so that it does
// not depend on which NIC came up first.
func (p *planner) createBond(l *link, ports []int) *LinkState {
	var settings []Setting
	for i := range bondOptions {
		o := &bondOptions[i]
		if v, ok := l.bond.options[o.name]; ok && o.def != unmanaged {
			settings = append(settings, Setting{o.name, v})
		}
	}
	return p.create(l, Op{Settings: append(settings, p.firstPortMAC(l, ports)...)}, 1500)
}

func (p *planner) firstPortMAC(l *link, ports []int) []Setting {
	if l.mac == "" && len(ports) > 0 {
		if mac := p.link(ports[0]).permanentMAC(); mac != "" {
			return []Setting{{"mac", mac}}
		}
	}
	return nil
}

// bondOptions changes what differs, as little disruptively as the driver
// allows. An option that is right is not sent: the driver refuses `mode` on a
// bond with ports even when it stays the same.
func (p *planner) bondOptions(l *link, d *LinkState) {
	var differ []Setting
	least, strictest := live, ""
	for i := range bondOptions {
		o := &bondOptions[i]
		if v, ok := o.wish(l.bond.options); ok && o.name != "primary" && v != d.Bond[o.name] {
			differ = append(differ, Setting{o.name, v})
			if o.change > least {
				least, strictest = o.change, o.name
			}
		}
	}
	if least == noPorts {
		p.releaseAll(d, "to change "+strictest)
	}
	if least >= down {
		p.down(d, "to change "+strictest)
	}
	for _, s := range differ {
		p.bondOption(d, s, d.Bond[s.Name])
	}
}

func (p *planner) bondOption(d *LinkState, s Setting, was string) {
	p.do(Op{Verb: OpSet, Link: d.Name, Kind: string(kindBond), Settings: []Setting{s}, Why: itIs(was)})
}

func (p *planner) releaseAll(d *LinkState, why string) {
	for _, c := range p.portsOf(d) {
		p.release(c, why)
	}
}

// port makes c a port of bond d: without addresses, which would survive and
// answer for the bond; enslaved in a message of its own while down, because
// the driver refuses a port that is up, and Linux 6.1 leaves it down when both
// come in one message; with the bond's MTU.
func (p *planner) port(c, d *LinkState) {
	p.flush(c.Index)
	if c.Master == d.Index {
		p.mtu(c, d.MTU)
		p.up(c)
		return
	}
	if c.Master != 0 {
		p.release(c, "it shall be a port of "+d.Name)
	}
	p.down(c, "to become a port")
	p.do(Op{Verb: OpEnslave, Link: c.Name, Other: d.Name})
	c.Master, c.Up, c.MTU = d.Index, true, d.MTU
}

func (p *planner) flush(index int) {
	p.dropAddresses(index, func(a AddressState) bool {
		p.deleteAddress(a, "a port has none")
		return true
	})
}

// primary names a port, so it comes after the ports.
func (p *planner) primary(l *link, d *LinkState) {
	o := bondOptionNamed("primary")
	if _, ok := o.wish(l.bond.options); !ok {
		return
	}
	want := ""
	if l.bond.primary != "" {
		c := p.wanted(l.bond.primary)
		if c == nil {
			return // it is waited for
		}
		want = c.Name
	}
	if d.Bond["primary"] != want {
		p.bondOption(d, Setting{"primary", want}, d.Bond["primary"])
	}
}

func (p *planner) vlanDevice(l *link) []int {
	parent := p.wanted(l.vlan.parent)
	if parent == nil {
		p.wait(l, waitParent, "its link "+l.vlan.parent+" is missing")
		return nil
	}
	d := p.named(l.name)
	if d != nil && !p.fits(l, d) {
		p.delete(d, l)
		d = nil
	}
	if d == nil {
		d = p.sameVLAN(l, parent)
	}
	if d == nil {
		d = p.create(l, Op{Other: parent.Name, Settings: []Setting{{"id", fmt.Sprint(l.vlan.id)}}}, parent.MTU)
	}
	p.shape(l, d)
	if !parent.Up && l.activation != activateOff {
		p.wait(l, waitParent, "its link "+parent.Name+" is down")
		return nil
	}
	return p.finish(l, d)
}

// sameVLAN adopts a vlan that has the id and link but another name: the kernel
// would refuse a second one.
func (p *planner) sameVLAN(l *link, parent *LinkState) *LinkState {
	for _, d := range p.links {
		if d.Kind == string(kindVLAN) && d.Parent == parent.Index && d.VLAN == l.vlan.id {
			p.rename(d, l.name)
			return d
		}
	}
	return nil
}
