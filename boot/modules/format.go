package modules

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// indexHeader opens an index; the number changes when old readers would be wrong.
const indexHeader = "reveille modules 1"

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
	for _, n := range slices.Sorted(maps.Keys(ix.builtin)) {
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
	for _, name := range slices.Sorted(maps.Keys(mods)) {
		flat = append(flat, *mods[name])
	}
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
