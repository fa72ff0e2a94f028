package netcfg

import (
	"fmt"
	"path"
	"slices"
)

// stacked are the kinds that sit on other devices and take over their MAC: an
// ethernet never means one, by whatever it is matched.
var stacked = []string{"bond", "bridge", "ipvlan", "macvlan", "macvtap", "team", "vlan", "vrf"}

// bindNICs finds the interfaces that each wanted NIC means. An interface is
// bound once; the document's order decides.
func (p *planner) bindNICs() {
	for i := range p.want.links {
		l := &p.want.links[i]
		if l.kind != kindNIC {
			continue
		}
		found := p.meant(l)
		if len(found) == 0 {
			p.wait(l, waitNIC, p.missing(l))
			continue
		}
		if l.match != nil && l.name != "" {
			found = []int{p.preferred(found, l.name)} // a name is for one
		}
		for _, index := range found {
			p.bound[index] = true
		}
		p.nics[l.id] = found
	}
}

// meant is the interfaces that l means and nothing before it did.
func (p *planner) meant(l *link) []int {
	if l.match == nil {
		if d := p.named(l.name); d != nil && !p.bound[d.Index] && l.means(d) {
			return []int{d.Index}
		}
		return p.predicted(l)
	}
	var found []int
	for _, d := range p.links {
		if !p.bound[d.Index] && l.means(d) {
			found = append(found, d.Index)
		}
	}
	return found
}

// preferred is the one that has the name already, else the first.
func (p *planner) preferred(indices []int, name string) int {
	for _, index := range indices {
		if p.link(index).Name == name {
			return index
		}
	}
	return indices[0]
}

// means reports whether the document's link l is the interface d.
func (l *link) means(d *LinkState) bool {
	m := l.match
	switch {
	case slices.Contains(stacked, d.Kind):
		return false
	case m == nil:
		return d.Name == l.name
	case d.Name == "lo":
		return m.name == "lo" && m.mac == "" && m.drivers == nil
	}
	if m.mac != "" && m.mac != d.permanentMAC() {
		return false
	}
	if m.name != "" {
		// A renamed interface answers to the name that its document gave it.
		if !d.answersTo(m.name) && (l.name == "" || d.Name != l.name) {
			return false
		}
	}
	return m.drivers == nil || slices.ContainsFunc(m.drivers, func(glob string) bool {
		ok, _ := path.Match(glob, d.Driver)
		return ok
	})
}

// permanentMAC is the burned-in address: a port of a bond shows the bond's.
func (d *LinkState) permanentMAC() string {
	if d.PermMAC != "" {
		return d.PermMAC
	}
	return d.MAC
}

// missing says what to look for in the machine.
func (p *planner) missing(l *link) string {
	m := l.match
	switch {
	case m == nil:
		if d := p.named(l.name); d != nil {
			return fmt.Sprintf("%s is a %s, not a network card", l.name, d.Kind)
		}
		return "no interface named " + l.name
	case m.mac != "":
		return "no interface with MAC " + m.mac
	case m.drivers != nil:
		return fmt.Sprintf("no interface of driver %s", m.drivers[0])
	}
	return "no interface whose name matches " + m.name
}

// clearNames frees the names of the devices that we shall create from what has
// them wrongly: a device of another kind, another vlan, an alternative name.
func (p *planner) clearNames() {
	wanted := map[string]bool{}
	for i := range p.want.links {
		l := &p.want.links[i]
		wanted[l.name] = l.name != ""
		if l.kind == kindNIC {
			continue
		}
		if d := p.named(l.name); d != nil && d.Kind != "" && !p.bound[d.Index] && !p.fits(l, d) {
			p.delete(d, l)
		}
	}
	for _, d := range p.links {
		for _, alt := range d.AltNames {
			if wanted[alt] && p.named(alt) == nil {
				p.do(Op{Verb: OpDropAltName, Link: d.Name, Other: alt})
				d.AltNames = slices.DeleteFunc(slices.Clone(d.AltNames), func(s string) bool { return s == alt })
			}
		}
	}
}

// fits reports whether d can become l without being made anew.
func (p *planner) fits(l *link, d *LinkState) bool {
	if d.Kind != string(l.kind) {
		return false
	}
	if l.kind != kindVLAN {
		return true
	}
	parent := p.wanted(l.vlan.parent)
	return d.VLAN == l.vlan.id && (parent == nil || parent.Index == d.Parent)
}

// wanted is the interface that the wanted link id is now, nil if none is.
func (p *planner) wanted(id string) *LinkState {
	l := p.ids[id]
	if l.kind == kindNIC {
		if indices := p.nics[l.id]; len(indices) > 0 {
			return p.link(indices[0])
		}
		return nil
	}
	if d := p.named(l.name); d != nil && d.Kind == string(l.kind) {
		return d
	}
	return nil
}

// delete plans the end of a device and of what the kernel takes with it: its
// vlans, its addresses and routes, and its hold on ports.
func (p *planner) delete(d *LinkState, l *link) {
	p.do(Op{Verb: OpDelete, Link: d.Name, Why: d.unlike(l)})
	p.forget(d)
}

// unlike says why d cannot become l.
func (d *LinkState) unlike(l *link) string {
	if d.Kind != string(l.kind) {
		return "is a " + d.Kind
	}
	return fmt.Sprintf("is vlan %d, perhaps of another link", d.VLAN)
}

func (p *planner) forget(d *LinkState) {
	p.removeLink(d)
	p.dropAddresses(d.Index, func(AddressState) bool { return true })
	p.dropRoutes(d.Index)
	for _, c := range slices.Clone(p.links) {
		if c.Master == d.Index {
			c.Master, c.Up = 0, false
		}
		if c.Parent == d.Index && c.Kind == string(kindVLAN) {
			p.forget(c)
		}
	}
}

// renameNICs gives matched interfaces their names, and whatever else has such
// a name, or that of a device to create, another one.
func (p *planner) renameNICs() {
	todo := map[int]string{}
	for i := range p.want.links {
		l := &p.want.links[i]
		if l.kind == kindNIC {
			for _, index := range p.nics[l.id] {
				if l.name != "" && p.link(index).Name != l.name {
					todo[index] = l.name
				}
			}
			continue
		}
		if d := p.named(l.name); d != nil && d.Kind != string(l.kind) && todo[d.Index] == "" && !p.bound[d.Index] {
			p.rename(d, p.aside(d)) // hardware that cannot be deleted
		}
	}
	for len(todo) > 0 {
		p.renameOne(todo)
	}
}

// renameOne does a rename whose name is free; when none is, it moves a holder
// out of the way, which also breaks cycles: eth0 <-> eth1.
func (p *planner) renameOne(todo map[int]string) {
	indices := make([]int, 0, len(todo))
	for index := range todo {
		indices = append(indices, index)
	}
	slices.Sort(indices)
	for _, index := range indices {
		if p.named(todo[index]) == nil {
			p.rename(p.link(index), todo[index])
			delete(todo, index)
			return
		}
	}
	holder := p.named(todo[indices[0]])
	p.rename(holder, p.aside(holder))
}

// aside is a name that nobody has or wants; udev's for the same purpose, if free.
func (p *planner) aside(d *LinkState) string {
	for i := d.Index; ; i++ {
		name := fmt.Sprintf("rename%d", i)
		if !slices.ContainsFunc(p.want.links, func(l link) bool { return l.name == name }) &&
			!slices.ContainsFunc(p.links, func(l *LinkState) bool {
				return l.Name == name || slices.Contains(l.AltNames, name)
			}) {
			return name
		}
	}
}

// rename takes the link down for it: before Linux 6.2 the kernel refuses to
// rename a link that is up.
func (p *planner) rename(d *LinkState, name string) {
	p.down(d, "to change its name")
	p.do(Op{Verb: OpRename, Link: d.Name, Other: name})
	p.renameLink(d, name)
}
