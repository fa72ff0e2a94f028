package modules

import (
	"strings"
	"testing"
)

func TestFnmatch(t *testing.T) {
	for _, c := range []struct {
		pattern, s string
		want       bool
	}{
		{"", "", true},
		{"*", "", true},
		{"a*", "a/b", true}, // a star crosses slashes
		{"*b*", "abc", true},
		{"*b*d", "abcbd", true},
		{"*b*d", "abcb", false},
		{"?", "", false},
		{"a?c", "abc", true},
		{`a\*c`, "a*c", true},
		{`a\*c`, "abc", false},
		{`a\`, `a\`, true}, // nothing to quote
		{"[a-c]x", "bx", true},
		{"[!a-c]x", "bx", false},
		{"[^a-c]x", "dx", true},
		{"[]]", "]", true},
		{"[a-]", "-", true},
		{"[a", "[a", true}, // not closed: ordinary
		{"[a", "a", false},
		{"pci:v00008086d0000100Esv*sd*bc*sc*i*", "pci:v00008086d0000100Esv00001AF4sd00001100bc02sc00i00", true},
		{"acpi*:PNP0C14:*", "acpi:PNP0C14:", true},
		{"dmi*:svn[A-C]*", "dmi:bvnX:svnBoxes", true},
	} {
		if got := fnmatch(c.pattern, c.s); got != c.want {
			t.Errorf("fnmatch(%q, %q) = %v", c.pattern, c.s, got)
		}
	}
}

// FuzzFnmatch: it ends, a star swallows anything, and a quoted string matches
// itself only.
func FuzzFnmatch(f *testing.F) {
	f.Add("a*[b-d]?", "axxcz")
	f.Add(strings.Repeat("*a", 20), strings.Repeat("a", 40))
	f.Fuzz(func(t *testing.T, pattern, s string) {
		if fnmatch(pattern, s) && !fnmatch("*"+pattern, "x/"+s) {
			t.Errorf("%q matches %q, but not behind a star", pattern, s)
		}
		quoted := &strings.Builder{}
		for i := range len(s) {
			quoted.WriteByte('\\')
			quoted.WriteByte(s[i])
		}
		if !fnmatch(quoted.String(), s) || fnmatch(quoted.String(), s+"x") {
			t.Errorf("quoted %q does not match itself only", s)
		}
	})
}
