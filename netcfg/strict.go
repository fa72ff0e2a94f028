package netcfg

import (
	"errors"
	"fmt"
	"slices"
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
// KiB; 1,000 vlans with 2,000 addresses and 5,000 routes are about 500 KiB. The
// depth of netplan's schema is 7 and node.yaml wraps it once. Aliases are for
// sharing a few blocks; a thousandfold expansion is an attack. A hundred
// problems are more than anybody reads before the next try.
const (
	maxDocumentBytes = 1 << 20
	maxDocumentDepth = 24
	maxAliasedValues = 10_000
	maxProblems      = 100
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
	aliased := 0
	if n, why := withinBounds(node, maxDocumentDepth, false, &aliased); n != nil {
		d.add(n, "", Invalid, why)
		return d
	}
	d.root = node
	return d
}

// withinBounds returns the first node at which a bound is exceeded, and which.
func withinBounds(n *yaml.Node, depth int, alias bool, aliased *int) (*yaml.Node, string) {
	if alias {
		*aliased++
	}
	if *aliased > maxAliasedValues {
		return n, fmt.Sprintf("its aliases expand to more than %d values", maxAliasedValues)
	}
	if depth == 0 {
		return n, fmt.Sprintf("the document is nested deeper than %d levels", maxDocumentDepth)
	}
	if n.Kind == yaml.AliasNode {
		return withinBounds(n.Alias, depth-1, true, aliased)
	}
	for _, c := range n.Content {
		if at, why := withinBounds(c, depth-1, alias, aliased); at != nil {
			return at, why
		}
	}
	return nil, ""
}

// addSyntax keeps the line that the parser names at the start of its text,
// `yaml: line 3: ...`.
func (d *Document) addSyntax(err error) {
	text := strings.TrimPrefix(err.Error(), "yaml: ")
	p := Problem{File: d.file, Kind: Invalid}
	if n, _ := fmt.Sscanf(text, "line %d:", &p.Line); n == 1 {
		p.Column = 1
		_, text, _ = strings.Cut(text, ": ")
	}
	p.Text = "not YAML: " + text
	d.problems = append(d.problems, p)
}

// full reports whether there are as many problems as are told.
func (d *Document) full() bool { return len(d.problems) > maxProblems }

func (d *Document) add(n *yaml.Node, key string, kind Kind, text string) {
	if d.full() {
		return
	}
	if len(d.problems) == maxProblems {
		key, text = "", "has more problems, which are not listed"
	}
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
