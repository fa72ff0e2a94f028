package netcfg

import (
	"path"
	"slices"
)

// answersTo reports whether one of the interface's names matches the shell
// glob: its own, an alternative one, or one that udev would have given it.
func (d *LinkState) answersTo(glob string) bool {
	match := func(name string) bool {
		ok, _ := path.Match(glob, name)
		return ok
	}
	return match(d.Name) || slices.ContainsFunc(d.AltNames, match) || slices.ContainsFunc(d.Predictable, match)
}

// predicted is the interface that udev would have called as the document calls
// l, which no interface is called now. It is given that name.
func (p *planner) predicted(l *link) []int {
	for _, d := range p.links {
		if !p.bound[d.Index] && slices.Contains(d.Predictable, l.name) {
			return []int{d.Index}
		}
	}
	return nil
}

// altNames lets the document's interfaces be found under all names that udev
// would have given them. A name that anything has or shall have stays free.
func (p *planner) altNames() {
	taken := map[string]bool{}
	for i := range p.want.links {
		taken[p.want.links[i].name] = true
	}
	for _, d := range p.links {
		taken[d.Name] = true
		for _, alt := range d.AltNames {
			taken[alt] = true
		}
	}
	for _, d := range p.links {
		if !p.bound[d.Index] {
			continue
		}
		for _, name := range d.Predictable {
			if !taken[name] {
				taken[name] = true
				p.do(Op{Verb: OpAddAltName, Link: d.Name, Other: name})
			}
		}
	}
}
