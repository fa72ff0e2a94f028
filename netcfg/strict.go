package netcfg

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// This file is the strict reader of configuration that both the network schema
// and node.yaml are checked with, so that an operator meets one vocabulary.
// It collects every problem of a document instead of stopping at the first,
// and it never quotes a value on its own: a value may be a secret.
//
//	doc := netcfg.ReadDocument("node.yaml", text)
//	m := doc.Root().Mapping(netcfg.Keys{Known: []string{"version", "name"}})
//	name := m.Get("name").String()
//	if !validName(name) {
//		m.Get("name").Invalid("wants letters, digits and dashes")
//	}
//	return doc.Err()

// The bounds of a document that is still honest. A node.yaml is one to three
// KiB; 1,000 vlans with addresses and routes are about 200 KiB and 30,000 nodes.
// The depth of netplan's schema is 7 and node.yaml wraps it once.
const (
	maxDocumentBytes = 1 << 20
	maxDocumentNodes = 200_000
	maxDocumentDepth = 24
)

// Kind says whose fault a problem is.
type Kind int

const (
	// Invalid is a document that is wrong wherever it is read.
	Invalid Kind = iota
	// Unsupported is valid input that this version does not implement.
	Unsupported
)

// Problem is one thing wrong with a document, at a place an operator can open.
// Line and Column count from 1; 0 means that the place is not known.
type Problem struct {
	File         string
	Line, Column int
	Key          string // dotted path of keys, "bonds.bond0.interfaces"
	Text         string
	Kind         Kind
}

// String is the one form of a problem, `file:line:col: key: text`.
func (p Problem) String() string {
	s := p.File
	if p.Line > 0 {
		s += fmt.Sprintf(":%d:%d", p.Line, p.Column)
	}
	if p.Key != "" {
		s += ": " + p.Key
	}
	return s + ": " + p.Text
}

// Problems is everything wrong with a document, in document order.
type Problems []Problem

// Error lists every problem, one a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.String()
	}
	return strings.Join(lines, "\n")
}

// Invalid reports whether any problem is of kind Invalid; if not, the document
// is valid and merely asks for more than we implement.
func (ps Problems) Invalid() bool {
	return slices.ContainsFunc(ps, func(p Problem) bool { return p.Kind == Invalid })
}

// Document is one YAML document under inspection, with the problems met so far.
type Document struct {
	file     string
	root     *yaml.Node
	problems Problems
}

// ReadDocument parses one YAML document within bounds of size, depth and alias
// expansion. It always returns a document; what is wrong with it is in Err.
func ReadDocument(file string, text []byte) *Document {
	d := &Document{file: file}
	if len(text) > maxDocumentBytes {
		d.add(nil, "", Invalid, fmt.Sprintf("is %d bytes long, at most %d are read", len(text), maxDocumentBytes))
		return d
	}
	var node yaml.Node
	if err := yaml.Unmarshal(text, &node); err != nil {
		d.addSyntax(err)
		return d
	}
	if len(node.Content) == 0 {
		d.add(nil, "", Invalid, "is empty")
		return d
	}
	return d.adopt(node.Content[0])
}

// NodeDocument inspects a part of a document that was already parsed, under
// the same bounds; file names the document that the node came from.
func NodeDocument(file string, node *yaml.Node) *Document {
	d := &Document{file: file}
	if node == nil {
		d.add(nil, "", Invalid, "is empty")
		return d
	}
	return d.adopt(node)
}

// adopt takes node as the root unless it exceeds the bounds: afterwards every
// walk of the tree may follow aliases freely.
func (d *Document) adopt(node *yaml.Node) *Document {
	budget := maxDocumentNodes
	if n, why := withinBounds(node, maxDocumentDepth, &budget); n != nil {
		d.add(n, "", Invalid, why)
		return d
	}
	d.root = node
	return d
}

// withinBounds returns the first node at which a bound is exceeded, and which.
func withinBounds(n *yaml.Node, depth int, budget *int) (*yaml.Node, string) {
	*budget--
	if *budget < 0 {
		return n, fmt.Sprintf("the document has more than %d values once its aliases are expanded", maxDocumentNodes)
	}
	if depth == 0 {
		return n, fmt.Sprintf("the document is nested deeper than %d levels", maxDocumentDepth)
	}
	if n.Kind == yaml.AliasNode {
		return withinBounds(n.Alias, depth-1, budget)
	}
	for _, c := range n.Content {
		if at, why := withinBounds(c, depth-1, budget); at != nil {
			return at, why
		}
	}
	return nil, ""
}

// addSyntax keeps the line that the parser names at the start of its text,
// `yaml: line 3: ...`.
func (d *Document) addSyntax(err error) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	p := Problem{File: d.file, Text: "not YAML: " + text, Kind: Invalid}
	var line int
	if n, _ := fmt.Sscanf(text, "line %d:", &line); n == 1 {
		p.Line, p.Column = line, 1
	}
	d.problems = append(d.problems, p)
}

func (d *Document) add(n *yaml.Node, key string, kind Kind, text string) {
	p := Problem{File: d.file, Key: key, Text: text, Kind: kind}
	if n != nil {
		p.Line, p.Column = n.Line, n.Column
	}
	d.problems = append(d.problems, p)
}

// Root is the document's top value; without one (see Err) it is absent.
func (d *Document) Root() Value { return Value{doc: d, node: d.root, at: d.root} }

// Err is nil, or a Problems with everything found so far, in document order.
func (d *Document) Err() error {
	if len(d.problems) == 0 {
		return nil
	}
	ps := slices.Clone(d.problems)
	slices.SortStableFunc(ps, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	return slices.Compact(ps)
}

// Merge adds the problems of a part that was inspected on its own, such as the
// error of ParseNode. An error that is no Problems is added without a place.
func (d *Document) Merge(err error) {
	var ps Problems
	switch {
	case err == nil:
	case errors.As(err, &ps):
		d.problems = append(d.problems, ps...)
	default:
		d.add(nil, "", Invalid, err.Error())
	}
}

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
		v.Invalid("wants an integer from %d to %d", lo, hi)
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
	v.Invalid("wants one of %s%s", strings.Join(words, ", "), Suggest(s, words))
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
	if !v.Set() && m.self.Set() {
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
			e.Value.Invalid("unknown key%s", Suggest(e.Key, slices.Concat(keys.Known, keys.NotYet)))
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
