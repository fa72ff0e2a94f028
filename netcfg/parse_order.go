package netcfg

import (
	"slices"
	"strings"
)

// order sorts the links so that each comes after what it needs: a vlan after
// its link, a bond or bridge after its ports. Otherwise it keeps the order of
// the document. A circle is reported.
func (c *compiler) order() {
	byID := map[string]*link{}
	for i := range c.cfg.links {
		byID[c.cfg.links[i].id] = &c.cfg.links[i]
	}
	sorted := make([]link, 0, len(c.cfg.links))
	const visiting, done = 1, 2
	state := map[string]int{}
	var path []string
	var visit func(l *link)
	visit = func(l *link) {
		switch state[l.id] {
		case done:
			return
		case visiting:
			circle := append(path[slices.Index(path, l.id):], l.id)
			c.where[l.id].Invalid("stands on itself: %s", strings.Join(circle, " on "))
			return
		}
		state[l.id] = visiting
		path = append(path, l.id)
		for _, id := range l.needs() {
			if below := byID[id]; below != nil {
				visit(below)
			}
		}
		path = path[:len(path)-1]
		state[l.id] = done
		sorted = append(sorted, *l)
	}
	for i := range c.cfg.links {
		visit(&c.cfg.links[i])
	}
	c.cfg.links = sorted
}

// needs is the ids of the links that must be there first.
func (l *link) needs() []string {
	if l.kind == kindVLAN {
		return []string{l.vlan.parent}
	}
	return slices.Concat(l.bond.ports, l.bridge.ports)
}
