package netcfg

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
	master := map[string]string{}
	for i := range c.cfg.links {
		l := &c.cfg.links[i]
		at := c.where[l.id]
		if l.kind == kindVLAN {
			c.checkParent(l, at)
		}
		for _, id := range l.bond.ports {
			port := c.refer(id)
			if other, taken := master[id]; taken {
				at.Invalid("%s is already a port of %s", id, other)
			}
			master[id] = l.id
			if port != nil {
				c.checkPort(l, port)
			}
		}
		if p := l.bond.primary; p != "" && master[p] != l.id {
			at.Invalid("primary %s is none of its interfaces", p)
		}
	}
}

// refer is the link that id names, or a report that there is none.
func (c *compiler) refer(id string) *link {
	l := c.cfg.find(id)
	if l == nil && id != "" {
		var ids []string
		for _, l := range c.cfg.links {
			ids = append(ids, l.id)
		}
		at := c.refs[id]
		at.Invalid("interface %s is not defined%s", id, at.doc.suggest(id, ids))
	}
	return l
}

func (c *compiler) checkParent(l *link, at Value) {
	parent := c.refer(l.vlan.parent)
	switch {
	case parent == nil:
	case parent.kind == kindVLAN:
		at.Unsupported("a vlan on a vlan is valid netplan that we do not support yet")
	case l.mtu != 0 && parent.mtu != 0 && l.mtu > parent.mtu:
		at.Invalid("mtu %d is larger than the %d of its link %s", l.mtu, parent.mtu, parent.id)
	}
	for _, o := range c.cfg.links {
		if o.id == l.id {
			return
		}
		if o.kind == kindVLAN && o.vlan == l.vlan {
			at.Invalid("is the same vlan %d on %s as %s", l.vlan.id, l.vlan.parent, o.id)
		}
	}
}

// checkPort refuses what has no effect on a port, or none that can be kept.
func (c *compiler) checkPort(bond, port *link) {
	at := c.where[port.id]
	switch {
	case port.kind == kindBond:
		at.Invalid("a bond cannot be a port of %s", bond.id)
	case port.kind == kindVLAN:
		at.Unsupported("a vlan as a port of %s is valid netplan that we do not support yet", bond.id)
	}
	for _, bad := range []struct {
		set  bool
		what string
	}{
		{len(port.addresses) > 0, "addresses"},
		{len(port.routes) > 0, "routes"},
		{port.acceptRA != nil, "accept-ra"},
		{port.mac != "", "macaddress"},
		{port.mtu != 0 && port.mtu != bond.mtu, "mtu"},
	} {
		if bad.set {
			at.Invalid("has no effect on a port: move %s to %s", bad.what, bond.id)
		}
	}
}
