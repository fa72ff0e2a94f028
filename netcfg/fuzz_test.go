package netcfg

import (
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

// FuzzParse: no document makes the compiler fail otherwise than by problems
// with a place; what compiles can be planned, twice the same.
func FuzzParse(f *testing.F) {
	for _, ar := range seeds(f) {
		f.Add(ar.Files[0].Data)
	}
	have := State{Links: []LinkState{
		{Index: 1, Name: "lo", Up: true, MTU: 65536},
		{Index: 2, Name: "eth0", MAC: "52:54:00:00:00:01", Up: true, Carrier: true, MTU: 1500},
		{Index: 3, Name: "bond0", Kind: "dummy", MTU: 1500},
	}}
	f.Fuzz(func(t *testing.T, doc []byte) {
		cfg, err := Parse("n.yaml", doc)
		if err != nil {
			ps, ok := err.(Problems)
			if !ok || len(ps) == 0 || slices.ContainsFunc(ps, func(p Problem) bool { return p.Text == "" }) {
				t.Fatalf("%#v", err)
			}
			return
		}
		planTwice(t, cfg, have)
	})
}

// FuzzPlan: no document and saved state make the planner fail, and it plans
// twice the same.
func FuzzPlan(f *testing.F) {
	for _, ar := range seeds(f) {
		if len(ar.Files) == 3 {
			f.Add(ar.Files[0].Data, ar.Files[1].Data)
		}
	}
	f.Fuzz(func(t *testing.T, doc, state []byte) {
		cfg, err := Parse("n.yaml", doc)
		if err != nil {
			return
		}
		have, err := ReadState("s.yaml", state)
		if err != nil {
			return
		}
		planTwice(t, cfg, have)
	})
}

func planTwice(t *testing.T, cfg *Config, have State) {
	first, second := Plan(cfg, have), Plan(cfg, have)
	if diff := cmp.Diff(first, second, cmp.Comparer(func(a, b Op) bool { return a.String() == b.String() })); diff != "" {
		t.Fatal(diff)
	}
}

// seeds is every golden of this package.
func seeds(f *testing.F) []*txtar.Archive {
	files, err := filepath.Glob("testdata/*/*.txtar")
	if err != nil || len(files) == 0 {
		f.Fatal("no seeds", err)
	}
	var out []*txtar.Archive
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		out = append(out, ar)
	}
	return out
}

// FuzzDecode: no message makes the decoders fail otherwise than by an error.
func FuzzDecode(f *testing.F) {
	f.Add([]byte{0}, ifInfo(1, 0, 0))
	f.Add([]byte{1}, make([]byte, 8))
	f.Add([]byte{2}, routeDumpRequest(2))
	f.Add([]byte{3}, ruleDumpRequest(2))
	decoders := []func(*State, []byte) error{decodeLink, decodeAddress, decodeRoute, decodeRule}
	f.Fuzz(func(t *testing.T, kind, data []byte) {
		if len(kind) == 0 {
			return
		}
		var s State
		if err := decoders[int(kind[0])%len(decoders)](&s, data); err == nil {
			nameBondPorts(s.Links)
			show(s)
		}
	})
}
