//go:build guest

package netcfg

import (
	"slices"
	"strings"
	"testing"
)

// The guest's cards are on its PCI bus: a document that has them by the names
// of their paths finds them, and the kernel knows them by those names then.
func TestKernelPredictableNames(t *testing.T) {
	have, err := Observe(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(have.Links, func(l LinkState) bool { return l.Kind == "" && l.Name != "lo" })
	if i < 0 {
		t.Fatalf("no card in %+v", have.Links)
	}
	card := have.Links[i]
	onPath := slices.IndexFunc(card.Predictable, func(s string) bool { return strings.HasPrefix(s, "enp") })
	if onPath < 0 || !slices.Contains(card.Predictable, "enx"+strings.ReplaceAll(card.MAC, ":", "")) {
		t.Fatalf("names of %s: %v", card.Name, card.Predictable)
	}
	name := card.Predictable[onPath]
	r := New(compileWish(t, `ethernets: {`+name+`: {}}`), quiet(), Options{})
	if _, err := r.Converge(t.Context()); err != nil {
		t.Fatal(err)
	}
	again, err := r.Converge(t.Context())
	if err != nil || again.Writes != 0 {
		t.Errorf("again: %v, %v", again.Ops, err)
	}
	have, err = Observe(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	l := have.link(card.Index)
	if l.Name != name || len(l.AltNames) != len(card.Predictable)-1 {
		t.Errorf("called %s, also %v, of %v", l.Name, l.AltNames, card.Predictable)
	}
}
