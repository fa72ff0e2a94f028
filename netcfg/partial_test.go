package netcfg

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// partialStates is what a network may be found in, by an earlier stage, another
// tool or a crash half-way, and the scenarios and tests that start there. Each
// scenario converges, is then found converged without a write, and converges
// again after each single operation at which the first try can die.
var partialStates = []struct {
	what  string
	tests []string
}{
	{"a bond from the loading of the module", []string{"bond of module load"}},
	{"another kind of device, or an alternative name, has the bond's name", []string{"dummy called bond0", "alternative name bond0", "dummy called br0"}},
	{"a bond of another mode, up, with ports", []string{"wrong mode, up, with ports"}},
	{"LACP options differ on a bond that is up", []string{"lacp options differ, up"}},
	{"fail_over_mac differs", []string{"fail_over_mac differs"}},
	{"options differ that change live", []string{"live options differ"}},
	{"the port to be is up", []string{"port is up"}},
	{"the port is one already", []string{"ports are right"}},
	{"a wrong, an extra and a missing port", []string{"wrong, extra and missing port", "port of another bond", "one port is missing"}},
	{"addresses left on a port", []string{"port has addresses", "port kept addresses", "bridge port has addresses"}},
	{"one address on two links", []string{"address on two links", "address on another link"}},
	{"the same address with another prefix length", []string{"other prefix length"}},
	{"an address that ends where a lasting one is wanted, and the reverse", []string{"address of another label and life", "TestLifetimes"}},
	{"an address that is still checked for duplicates", []string{"TestKernelWaitsForDAD"}},
	{"an address that failed the check", []string{"TestKernelDuplicateAddress"}},
	{"no carrier", []string{"no carrier"}},
	{"optimistic duplicate address detection", []string{"optimistic"}},
	{"IPv6 switched off by the kernel because of a duplicate link-local address", []string{"IPv6 off", "TestKernelDuplicateLinkLocal"}},
	{"IPv6 switched off and on", []string{"IPv6 off and on"}},
	{"a link that was down", []string{"down then up lost the rest", "addresses kept when down", "port went down"}},
	{"a link made anew", []string{"vlan recreated"}},
	{"an MTU below IPv6's, then restored", []string{"MTU below IPv6's", "IPv6 settings reset by the MTU"}},
	{"a link from another namespace", []string{"from another namespace"}},
	{"accept_ra written for all links too late", []string{"accept_ra for all, too late"}},
	{"the making of addresses changed while up", []string{"mode changed while up", "link-local of another MAC", "privacy from nothing", "privacy while up"}},
	{"a default route of an advertisement beside ours", []string{"route of an advertisement"}},
	{"a route whose source address was deleted", []string{"the source of a route was deleted"}},
	{"a port with a smaller MTU", []string{"port's MTU lowered"}},
	{"a link to rename that is up", []string{"rename while up", "two names swapped", "name taken by another"}},
	{"the bond was deleted", []string{"bond deleted"}},
	{"two attributes in one message, the second refused", []string{"a half change", "option of another mode"}},
	{"a name with a dot in it", []string{"lacp and vlan from nothing", "a tower of devices"}},
	{"a list that changed while it was read", []string{"TestKernelInterruptedDump"}},
}

func TestEveryPartialState(t *testing.T) {
	var have []string
	for _, s := range slices.Concat(nicScenarios, policyScenarios, deviceScenarios, bridgeScenarios) {
		have = append(have, s.name)
	}
	files, err := filepath.Glob("*_test.go")
	if err != nil {
		t.Fatal(err)
	}
	var source strings.Builder
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		source.Write(b)
	}
	for i, row := range partialStates {
		for _, name := range row.tests {
			if !slices.Contains(have, name) && !strings.Contains(source.String(), "func "+name+"(") {
				t.Errorf("%d. %s: there is no %q", i+1, row.what, name)
			}
		}
	}
}

// An address that lasts where a lease's is wanted gets the lease's end in
// place, and the reverse.
func TestLifetimes(t *testing.T) {
	for _, open := range []func(testing.TB) lab{newFake, newKernelLab} {
		for _, life := range []struct{ from, to lifetime }{
			{forever, lifetime{600, 1200}}, {lifetime{600, 1200}, forever}, {lifetime{600, 1200}, lifetime{3600, 7200}}, {forever, lifetime{0, infinity}},
		} {
			l := open(t)
			scenario{nics: 1}.prepare(t, l)
			for _, wish := range []lifetime{life.from, life.to} {
				cfg := compileWish(t, `ethernets: {eth0: {addresses: [10.9.0.1/24, "fd00:9::1/64"]}}`)
				for i := range cfg.links[0].addresses {
					cfg.links[0].addresses[i].lifetime = wish
				}
				r := New(cfg, quiet(), Options{})
				scenario{}.check(t, r, l)
				scenario{start: happens(checked, "eth0")}.prepare(t, l)
				scenario{}.check(t, r, l)
				have, err := l.Observe(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				for _, a := range have.Addresses {
					if a.Proto == ownProto && !wish.near(a.left()) {
						t.Errorf("%s lasts %v, want %v", a.Prefix, a.left(), wish)
					}
				}
			}
		}
	}
}
