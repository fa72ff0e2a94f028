package netcfg

import (
	"net/netip"
	"slices"
)

// The checks that need the whole document.

// checkNames refuses two definitions of one interface.
func (c *compiler) checkNames() {
	first := map[string]string{}
	for _, l := range c.cfg.links {
		if l.name == "" {
			continue
		}
		if id, dup := first[l.name]; dup {
			c.where[l.id].Invalid("has the same interface name %s as %s", l.name, id)
			continue
		}
		first[l.name] = l.id
	}
}

// checkReferences refuses names that nothing defines and devices that cannot
// be stacked.
func (c *compiler) checkReferences() {
	byID := map[string]*link{}
	for i := range c.cfg.links {
		byID[c.cfg.links[i].id] = &c.cfg.links[i]
	}
	master := map[string]string{}
	vlans := map[vlan]string{}
	for i := range c.cfg.links {
		l := &c.cfg.links[i]
		at := c.where[l.id]
		if l.kind == kindVLAN {
			c.checkVLAN(l, c.refer(byID, l.vlan.parent), vlans)
		}
		for _, id := range slices.Concat(l.bond.ports, l.bridge.ports) {
			if other, taken := master[id]; taken {
				at.Invalid("%s is already a port of %s", id, other)
			}
			master[id] = l.id
			if port := c.refer(byID, id); port != nil {
				c.checkPort(l, port)
			}
		}
		if p := l.bond.primary; p != "" && master[p] != l.id {
			c.keys[l.id].Get("parameters").Names().Get("primary").Invalid("%s is none of its interfaces", p)
		}
	}
}

// refer is the link that id names, or a report that there is none.
func (c *compiler) refer(byID map[string]*link, id string) *link {
	l := byID[id]
	if l == nil && id != "" && !c.elsewhere[id] && !c.patched {
		var ids []string
		for _, l := range c.cfg.links {
			ids = append(ids, l.id)
		}
		at := c.refs[id]
		at.Invalid("interface %s is not defined%s", id, at.doc.suggest(id, ids))
	}
	return l
}

func (c *compiler) checkVLAN(l, parent *link, vlans map[vlan]string) {
	if parent == nil {
		return
	}
	if l.mtu != 0 && parent.mtu != 0 && l.mtu > parent.mtu {
		c.keys[l.id].Get("mtu").Unsupported("%d is larger than the %d of its link %s", l.mtu, parent.mtu, parent.id)
	}
	if other, dup := vlans[l.vlan]; dup {
		c.keys[l.id].Get("id").Unsupported("is the same vlan %d on %s as %s", l.vlan.id, l.vlan.parent, other)
	}
	vlans[l.vlan] = l.id
}

// checkPort refuses what has no effect on a port, or none that can be kept.
func (c *compiler) checkPort(master, port *link) {
	at := c.where[port.id]
	switch {
	case port.kind == kindBridge:
		at.Unsupported("a bridge cannot be a port of %s", master.id)
	case port.kind == kindBond && master.kind == kindBond:
		at.Unsupported("a bond cannot be a port of %s", master.id)
	case port.kind == kindVLAN && master.kind == kindBond:
		at.Unsupported("a vlan as a port of %s %s", master.id, unsupported)
	}
	for _, bad := range []struct {
		set bool
		key string
	}{
		{len(port.addresses) > 0, "addresses"},
		{c.keys[port.id].Get("gateway4").Set(), "gateway4"},
		{c.keys[port.id].Get("gateway6").Set(), "gateway6"},
		{c.keys[port.id].Get("routes").Set() && len(port.routes) > 0, "routes"},
		{port.acceptRA != nil && *port.acceptRA, "accept-ra"},
		{port.dhcp4 != nil, "dhcp4"},
		{port.dhcp6 != nil, "dhcp6"},
		{port.mac != "" && master.kind == kindBond, "macaddress"},
		{port.mtu != 0 && port.mtu != master.mtu && master.kind == kindBond, "mtu"},
	} {
		if bad.set {
			c.keys[port.id].Get(bad.key).Unsupported("has no effect on a port: move it to %s", master.id)
		}
	}
}

// implyNICs defines, in a document without an ethernets section, the NICs that
// it merely mentions: `bonds: {bond0: {interfaces: [eth0, eth1]}}` is complete.
func (c *compiler) implyNICs() {
	var nics []link
	for _, l := range c.cfg.links {
		for _, id := range l.needs() {
			if _, ok := c.where[id]; ok || id == "" {
				continue
			}
			if !validName(id) {
				c.refs[id].Invalid("%q is no interface name", id)
			}
			c.where[id] = c.refs[id]
			nics = append(nics, link{id: id, name: id, linkLocal: true, ra: raOverrides{useDNS: true}})
		}
	}
	c.cfg.links = append(nics, c.cfg.links...)
}

// routeKey is what we keep at most one route for, because IPv4 has one place
// for it.
type routeKey struct {
	to            netip.Prefix
	table, metric int
}

func (r Route) key() routeKey { return routeKey{r.To, r.Table, r.Metric} }

func (c *compiler) addRoute(l *link, v Value, r Route, ok bool) {
	if !ok {
		return
	}
	if first, dup := c.routes[r.key()]; dup {
		v.Unsupported("is a second route to %s with metric %d in table %d, the first is in line %d",
			r.To, r.Metric, r.Table, first.Line())
		return
	}
	c.routes[r.key()] = v
	l.routes = append(l.routes, r)
}
