// Package modules loads the kernel modules that a machine's devices ask for.
//
// A distribution's kernel package carries no modules.dep or modules.alias (they
// are made on installation, by depmod), so the image builder writes one index of
// its own from the modules themselves and this package reads it: see Index.
// The node's loader is Loader; nothing else in the node calls finit_module.
package modules

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"slices"
	"strings"
)

// IndexFile is the index's name inside lib/modules/<release>/.
const IndexFile = "modules.reveille"

// indexHeader opens an index; the number changes when old readers would be wrong.
const indexHeader = "reveille modules 1"

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
func (ix *Index) Names() []string {
	names := make([]string, 0, len(ix.modules))
	for n := range ix.modules {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

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

// Order returns name and everything it needs, in the order to load them:
// dependencies first, name last; what is built in is left out. A soft
// dependency that is missing is left out too, a hard one is an error.
func (ix *Index) Order(name string) ([]Module, error) {
	var order []Module
	state := map[string]int{} // 1 being visited, 2 done
	var visit func(name, by string) error
	visit = func(name, by string) error {
		name = CanonicalName(name)
		switch {
		case ix.builtin[name] || state[name] == 2:
			return nil
		case state[name] == 1:
			return fmt.Errorf("module %s: depends on itself through %s", name, by)
		}
		m, ok := ix.modules[name]
		if !ok && by == "" {
			return fmt.Errorf("module %s: %w", name, ErrUnknown)
		}
		if !ok {
			return fmt.Errorf("module %s, needed by %s: %w", name, by, ErrUnknown)
		}
		state[name] = 1
		for _, d := range m.Depends {
			if err := visit(d, name); err != nil {
				return err
			}
		}
		for _, d := range m.Soft {
			// Soft dependencies may form loops and may be absent: whatever is
			// wrong with one must not keep its user from loading.
			if _, ok := ix.modules[CanonicalName(d)]; ok && state[CanonicalName(d)] == 0 {
				_ = visit(d, name)
			}
		}
		state[name] = 2
		order = append(order, m)
		return nil
	}
	if err := visit(name, ""); err != nil {
		return nil, err
	}
	return order, nil
}

// Format writes the index as ParseIndex reads it; the same index gives the same
// bytes. One fact a line, words separated by one space:
//
//	reveille modules 1
//	builtin <name>...
//	module <name> <path> [<dependency>...]
//	soft <name> <module>...
//	alias <name> <pattern>
func (ix *Index) Format() []byte {
	var b bytes.Buffer
	fmt.Fprintln(&b, indexHeader)
	var builtin []string
	for n := range ix.builtin {
		builtin = append(builtin, n)
	}
	slices.Sort(builtin)
	for _, n := range builtin {
		fmt.Fprintln(&b, "builtin", n)
	}
	for _, n := range ix.Names() {
		m := ix.modules[n]
		fmt.Fprintln(&b, strings.Join(append([]string{"module", m.Name, m.Path}, m.Depends...), " "))
		if len(m.Soft) > 0 {
			fmt.Fprintln(&b, strings.Join(append([]string{"soft", m.Name}, m.Soft...), " "))
		}
		for _, a := range m.Aliases {
			fmt.Fprintln(&b, "alias", m.Name, a)
		}
	}
	return b.Bytes()
}

// ParseIndex reads an index; an unknown kind of line is an error with its number.
func ParseIndex(r io.Reader) (*Index, error) {
	s := bufio.NewScanner(r)
	if !s.Scan() || s.Text() != indexHeader {
		return nil, fmt.Errorf("parse module index: line 1: want %q", indexHeader)
	}
	mods := map[string]*Module{}
	var builtin []string
	for n := 2; s.Scan(); n++ {
		if err := parseLine(s.Text(), mods, &builtin); err != nil {
			return nil, fmt.Errorf("parse module index: line %d: %w", n, err)
		}
	}
	if err := s.Err(); err != nil {
		return nil, fmt.Errorf("parse module index: %w", err)
	}
	flat := make([]Module, 0, len(mods))
	for _, m := range mods {
		flat = append(flat, *m)
	}
	// The buckets of aliases come out in the same order whatever the map's.
	slices.SortFunc(flat, func(a, b Module) int { return strings.Compare(a.Name, b.Name) })
	return NewIndex(flat, builtin), nil
}

func parseLine(line string, mods map[string]*Module, builtin *[]string) error {
	f := strings.Split(line, " ")
	if slices.Contains(f, "") {
		return fmt.Errorf("empty word in %q", line)
	}
	switch kind := f[0]; {
	case kind == "builtin" && len(f) == 2:
		*builtin = append(*builtin, f[1])
	case kind == "module" && len(f) >= 3:
		name := CanonicalName(f[1])
		if mods[name] != nil {
			return fmt.Errorf("module %s: listed twice", name)
		}
		mods[name] = &Module{Name: name, Path: f[2], Depends: f[3:]}
	case (kind == "soft" || kind == "alias") && len(f) >= 3:
		m := mods[CanonicalName(f[1])]
		switch {
		case m == nil:
			return fmt.Errorf("%s before its module line: %q", kind, line)
		case kind == "soft":
			m.Soft = append(m.Soft, f[2:]...)
		case len(f) == 3:
			m.Aliases = append(m.Aliases, f[2])
		default:
			return fmt.Errorf("pattern with a space: %q", line)
		}
	default:
		return fmt.Errorf("not understood: %q", line)
	}
	return nil
}
