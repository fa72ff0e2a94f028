package netcfg

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// The walker, used as node.yaml uses it.
func TestStrictReader(t *testing.T) {
	for _, c := range []struct{ name, doc, want string }{
		{"right", "name: n1\ncount: 3\non: yes\nlist: [a, 2]\n", ""},
		{"unknown key", "nmae: n1\n", `f.yaml:1:1: nmae: unknown key; did you mean "name"?` + "\n" + `f.yaml:1:1: wants the key "name"`},
		{"no suggestion from afar", "name: n\nqqqqqq: 1\n", "f.yaml:2:1: qqqqqq: unknown key"},
		{"not yet", "name: n\nlater: 1\n", "f.yaml:2:1: later: is valid netplan that we do not support yet"},
		{"number for text", "name: 12\n", "f.yaml:1:1: name: wants text, not a number: quote it"},
		{"nothing for text", "name:\n", "f.yaml:1:1: name: wants text, not nothing"},
		{"list for text", "name: [a]\n", "f.yaml:1:1: name: wants text, not a list"},
		{"text for number", "name: n\ncount: many\n", "f.yaml:2:1: count: wants an integer, not text"},
		{"number out of range", "name: n\ncount: 11\n", "f.yaml:2:1: count: wants an integer from 1 to 10"},
		{"text for bool", "name: n\non: perhaps\n", "f.yaml:2:1: on: wants true or false, not text"},
		{"mapping in a list", "name: n\nlist: [a, {b: c}]\n", "f.yaml:2:11: list[1]: wants text, not a mapping"},
		{"given twice", "name: n\nname: m\n", "f.yaml:2:1: name: is given twice, first in line 1"},
		{"no mapping", "- a\n", "f.yaml:1:1: wants a mapping, not a list"},
		{"empty", "", "f.yaml: is empty"},
		{"too deep", "name: " + strings.Repeat("[", 40) + strings.Repeat("]", 40), "f.yaml:1:30: the document is nested deeper than 24 levels"},
		{"too long", "name: " + strings.Repeat("x", maxDocumentBytes), "f.yaml: is 1048582 bytes long, at most 1048576 are read"},
		{"alias", "name: &n n1\nlist: [*n]\n", ""},
		{"alias to itself", "list: &l [*l]\n", "f.yaml:1:11: the document is nested deeper than 24 levels"},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := ReadDocument("f.yaml", []byte(c.doc))
			m := d.Root().Mapping(Keys{Known: []string{"name", "count", "on", "list"}, NotYet: []string{"later"}})
			_ = m.Require("name").String()
			m.Get("count").Int(1, 10)
			m.Get("on").Bool()
			m.Get("list").Strings()
			got := ""
			if err := d.Err(); err != nil {
				got = err.Error()
			}
			if got != c.want {
				t.Errorf("got\n%s\nwant\n%s", got, c.want)
			}
		})
	}
}

// A part that was checked elsewhere joins the whole, in the document's order.
func TestMerge(t *testing.T) {
	d := ReadDocument("f.yaml", []byte("a: 1\nnetwork: {version: 3}\nb: 2\n"))
	m := d.Root().Mapping(Keys{Known: []string{"network"}})
	_, err := ParseNode("f.yaml", m.Get("network").Node())
	d.Merge(err)
	d.Merge(nil)
	d.Merge(errors.New("of another kind"))
	want := `f.yaml: of another kind
f.yaml:1:1: a: unknown key
f.yaml:2:11: network.version: wants 2
f.yaml:3:1: b: unknown key`
	if got := d.Err().Error(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func ExampleSuggest() {
	fmt.Println(Suggest("adresses", []string{"addresses", "routes"}))
	fmt.Println(Suggest("xyz", []string{"addresses", "routes"}))
	// Output:
	// ; did you mean "addresses"?
}
