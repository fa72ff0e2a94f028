//go:build bench

package netcfg

import (
	"slices"
	"strings"
	"testing"
)

// TestPeersNames: the names of the guest's cards are those that udev's own
// program computes.
func TestPeersNames(t *testing.T) {
	networkdTree(t)
	have, err := Observe(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	cards := 0
	for _, l := range have.Links {
		if l.Kind != "" || l.Name == "lo" {
			continue
		}
		cards++
		out, err := inPeers("/bin/udevadm", "test-builtin", "net_id", "/sys/class/net/"+l.Name).Output()
		if err != nil {
			t.Fatalf("%s: %v", l.Name, err)
		}
		var want []string
		for line := range strings.Lines(string(out)) {
			if key, name, _ := strings.Cut(strings.TrimSpace(line), "="); strings.HasPrefix(key, "ID_NET_NAME_") {
				want = append(want, name)
			}
		}
		slices.Sort(want)
		if got := slices.Sorted(slices.Values(l.Predictable)); !slices.Equal(got, want) || len(want) < 2 {
			t.Errorf("%s: %v, udev says %v", l.Name, got, want)
		}
		t.Logf("%s: %v", l.Name, l.Predictable)
	}
	if cards == 0 {
		t.Errorf("no card in %+v", have.Links)
	}
}
