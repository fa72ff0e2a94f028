// Package modules loads the kernel modules that a machine's devices ask for.
//
// A distribution's kernel package carries no modules.dep or modules.alias (they
// are made on installation, by depmod), so the image builder writes one index of
// its own from the modules themselves and this package reads it: see Index.
// The node's loader is Loader; nothing else in the node calls finit_module.
package modules

import (
	"maps"
	"slices"
	"strings"
)

// IndexFile is the index's name inside lib/modules/<release>/.
const IndexFile = "modules.reveille"

// Module is what one module says about itself in its .modinfo section.
type Module struct {
	Name    string   // as in /proc/modules: underscores, never dashes
	Path    string   // relative to lib/modules/<release>
	Depends []string // modules that must be there first (depends=)
	Soft    []string // modules worth having first (softdep=pre:); may be missing
	Aliases []string // modalias patterns, fnmatch(3) without flags (alias=)
}

// Index answers which modules a device asks for, and what those need first.
// The zero value is an empty index. It does not change once built.
type Index struct {
	modules map[string]Module
	builtin map[string]bool
	// aliases by their text before the first colon (the bus: pci, virtio, of...),
	// so that a device is compared with its own bus's patterns only: a metal image
	// has some ten thousand of them.
	aliases map[string][]alias
}

type alias struct{ pattern, module string }

// NewIndex builds an index; builtin names modules compiled into the kernel.
func NewIndex(mods []Module, builtin []string) *Index {
	ix := &Index{modules: map[string]Module{}, builtin: map[string]bool{}, aliases: map[string][]alias{}}
	for _, m := range mods {
		ix.modules[m.Name] = m
		for _, p := range m.Aliases {
			ix.aliases[bus(p)] = append(ix.aliases[bus(p)], alias{p, m.Name})
		}
	}
	for _, b := range builtin {
		ix.builtin[CanonicalName(b)] = true
	}
	return ix
}

// bus is the part of an alias that no pattern leaves open. A wildcard before the
// colon (some platform aliases) goes into the common bucket "*".
func bus(s string) string {
	b, _, _ := strings.Cut(s, ":")
	if strings.ContainsAny(b, `*?[\`) {
		return "*"
	}
	return b
}

// CanonicalName folds the two spellings of a module name (virtio-net.ko is
// virtio_net) as the kernel does.
func CanonicalName(s string) string { return strings.ReplaceAll(s, "-", "_") }

// Names returns the modules' names, sorted; those built into the kernel are not
// among them.
func (ix *Index) Names() []string { return slices.Sorted(maps.Keys(ix.modules)) }

// Module returns the module of that name.
func (ix *Index) Module(name string) (Module, bool) {
	m, ok := ix.modules[CanonicalName(name)]
	return m, ok
}

// Builtin says whether the kernel has that module compiled in.
func (ix *Index) Builtin(name string) bool { return ix.builtin[CanonicalName(name)] }

// Match returns the modules whose aliases fit a device's modalias, sorted.
func (ix *Index) Match(modalias string) []string {
	var found []string
	for _, bucket := range []string{bus(modalias), "*"} {
		for _, a := range ix.aliases[bucket] {
			if fnmatch(a.pattern, modalias) {
				found = append(found, a.module)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}
