package netcfg

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Keys is what a mapping may contain: Known keys are read; NotYet keys are
// valid and refused by name as unsupported; any other is unknown.
type Keys struct{ Known, NotYet []string }

// Value is a place in a document: a value, or the absence of one. The readers
// of an absent value return the zero value and report nothing.
type Value struct {
	doc  *Document
	path string
	node *yaml.Node // aliases not followed
	at   *yaml.Node // where to report: the key of a mapping entry, else node
}

// Set reports whether the document has the value.
func (v Value) Set() bool { return v.node != nil }

// Path is the dotted path of keys that leads here.
func (v Value) Path() string { return v.path }

// Node is the YAML node with aliases followed, nil when absent.
func (v Value) Node() *yaml.Node {
	n := v.node
	for n != nil && n.Kind == yaml.AliasNode {
		n = n.Alias
	}
	return n
}

// Line is the value's line, 0 when absent.
func (v Value) Line() int {
	if v.at == nil {
		return 0
	}
	return v.at.Line
}

// Invalid reports that the value is wrong.
func (v Value) Invalid(format string, args ...any) {
	v.doc.add(v.at, v.path, Invalid, fmt.Sprintf(format, args...))
}

// Unsupported reports that the value is right and not implemented.
func (v Value) Unsupported(format string, args ...any) {
	v.doc.add(v.at, v.path, Unsupported, fmt.Sprintf(format, args...))
}

// scalar returns the text of a scalar that is not null; want names the type
// that the schema asks for.
func (v Value) scalar(want string) (string, bool) {
	n := v.Node()
	if n == nil {
		return "", false
	}
	if n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		v.Invalid("wants %s, not %s", want, typeName(n))
		return "", false
	}
	return n.Value, true
}

func (v Value) isMapping() bool {
	n := v.Node()
	return n != nil && n.Kind == yaml.MappingNode
}

// isScalar reports whether the value is one that Scalar returns.
func (v Value) isScalar() bool {
	n := v.Node()
	return n != nil && n.Kind == yaml.ScalarNode && n.ShortTag() != "!!null"
}

// Scalar is the text of any scalar, whether YAML takes it for text or a
// number: names like `10` and times like `100ms` need no quotes.
func (v Value) Scalar() string {
	s, _ := v.scalar("text")
	return s
}

// String is the text of a scalar that YAML takes for text.
func (v Value) String() string {
	s, ok := v.scalar("text")
	if ok && v.Node().ShortTag() != "!!str" {
		v.Invalid("wants text, not %s: quote it", typeName(v.Node()))
		return ""
	}
	return s
}

// Bool accepts YAML 1.1's words as well, because netplan does.
func (v Value) Bool() bool {
	s, ok := v.scalar("true or false")
	if !ok {
		return false
	}
	switch strings.ToLower(s) {
	case "true", "yes", "on", "y":
		return true
	case "false", "no", "off", "n":
		return false
	}
	v.Invalid("wants true or false, not %s", typeName(v.Node()))
	return false
}

// Int is a decimal integer from lo to hi, both included.
func (v Value) Int(lo, hi int) int {
	s, ok := v.scalar("an integer")
	if !ok {
		return 0
	}
	n, err := strconv.Atoi(s)
	if err != nil {
		v.Invalid("wants an integer, not %s", typeName(v.Node()))
		return 0
	}
	if n < lo || n > hi {
		if lo == hi {
			v.Invalid("wants %d", lo)
		} else {
			v.Invalid("wants an integer from %d to %d", lo, hi)
		}
		return 0
	}
	return n
}

// Enum is one of the words; the nearest is suggested for a wrong one.
func (v Value) Enum(words ...string) string {
	s, ok := v.scalar("one of " + strings.Join(words, ", "))
	if !ok || slices.Contains(words, s) {
		return s
	}
	v.Invalid("wants one of %s%s", strings.Join(words, ", "), v.doc.suggest(s, words))
	return ""
}

// Sequence is the list's items.
func (v Value) Sequence() []Value {
	n := v.Node()
	if n == nil {
		return nil
	}
	if n.Kind != yaml.SequenceNode {
		v.Invalid("wants a list, not %s", typeName(n))
		return nil
	}
	items := make([]Value, len(n.Content))
	for i, c := range n.Content {
		items[i] = Value{doc: v.doc, path: fmt.Sprintf("%s[%d]", v.path, i), node: c, at: c}
	}
	return items
}

// Strings is a list of scalars, see Scalar.
func (v Value) Strings() []string {
	var out []string
	for _, item := range v.Sequence() {
		if s, ok := item.scalar("text"); ok {
			out = append(out, s)
		}
	}
	return out
}

// Entry is one key of a mapping with its value.
type Entry struct {
	Key   string
	Value Value
}

// Mapping is a mapping whose keys were checked.
type Mapping struct {
	self    Value
	entries []Entry
}

// Get is the value of a key, absent if the document has none.
func (m Mapping) Get(key string) Value {
	for _, e := range m.entries {
		if e.Key == key {
			return e.Value
		}
	}
	return Value{doc: m.self.doc, path: join(m.self.path, key)}
}

// Require is Get, and reports the key as missing if it is absent.
func (m Mapping) Require(key string) Value {
	v := m.Get(key)
	if !v.Set() && m.self.isMapping() {
		m.self.Invalid("wants the key %q", key)
	}
	return v
}

// Entries is every key in document order; those reported as unknown or
// unsupported are not among them.
func (m Mapping) Entries() []Entry { return m.entries }

// Set reports whether the document has the mapping.
func (m Mapping) Set() bool { return m.self.Set() }

// Mapping reads a mapping with a fixed set of keys. Unknown keys are reported
// with the nearest known one.
func (v Value) Mapping(keys Keys) Mapping {
	m := v.Names()
	kept := m.entries[:0]
	for _, e := range m.entries {
		switch {
		case slices.Contains(keys.Known, e.Key):
			kept = append(kept, e)
		case slices.Contains(keys.NotYet, e.Key):
			e.Value.Unsupported("is valid netplan that we do not support yet")
		default:
			e.Value.Invalid("unknown key%s", v.doc.suggest(e.Key, keys.Known, keys.NotYet))
		}
	}
	m.entries = kept
	return m
}

// Names reads a mapping whose keys are free, such as interface names.
func (v Value) Names() Mapping {
	m := Mapping{self: v}
	n := v.Node()
	if n == nil {
		return m
	}
	if n.Kind != yaml.MappingNode {
		v.Invalid("wants a mapping, not %s", typeName(n))
		return m
	}
	line := map[string]int{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		k := Value{doc: v.doc, path: v.path, node: n.Content[i], at: n.Content[i]}
		key, ok := k.scalar("a name as key")
		if !ok {
			continue
		}
		e := Value{doc: v.doc, path: join(v.path, key), node: n.Content[i+1], at: k.at}
		if first, dup := line[key]; dup {
			e.Invalid("is given twice, first in line %d", first)
			continue
		}
		line[key] = k.at.Line
		m.entries = append(m.entries, Entry{key, e})
	}
	return m
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

// typeName is what an operator calls the node's type.
func typeName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.ShortTag() {
	case "!!null":
		return "nothing"
	case "!!bool":
		return "true or false"
	case "!!int", "!!float":
		return "a number"
	}
	return "text"
}
