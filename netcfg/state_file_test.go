package netcfg

import (
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.yaml.in/yaml/v3"
)

// What is saved is what is read, down to what is nil and what is empty.
func TestStateFile(t *testing.T) {
	empty := ""
	for name, s := range map[string]State{
		"nothing": {},
		"managed": {ResolvConf: &empty, Sysctls: map[string]string{}},
		"much": {
			Links: []LinkState{
				{Index: 1, Name: "lo", Up: true, MTU: 65536, NoIPv6: true},
				{Index: 2, Name: "eth0", AltNames: []string{"enp1s0", "off"}, MAC: "02:00:00:00:00:01", AcceptRA: -1, Master: 3,
					Port: PortState{Active: true, Speed: 1000}},
				{Index: 3, Name: "bond0", Kind: "bond", Bond: BondOptions{"mode": "802.3ad", "miimon": "100", "primary": ""},
					Token: netip.MustParseAddr("::1")},
			},
			Addresses: []AddressState{{Link: 3, Prefix: netip.MustParsePrefix("fd00::1/64"), Proto: ownProto, Tentative: true}},
			Routes: []RouteState{{Link: 3, Proto: ownProto, Route: Route{
				To: netip.MustParsePrefix("0.0.0.0/0"), Via: netip.MustParseAddr("10.0.0.1"), Table: mainTable}}},
			Sysctls: map[string]string{"net.ipv4.ip_forward": "0"},
		},
	} {
		text, err := yaml.Marshal(s)
		if err != nil {
			t.Fatal(name, err)
		}
		got, err := ReadState(name, text)
		if err != nil {
			t.Fatalf("%s: %v:\n%s", name, err, text)
		}
		if diff := cmp.Diff(s, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b }),
			cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
			t.Errorf("%s (-saved +read):\n%s\n%s", name, diff, text)
		}
	}
}

func TestStateFileRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                      "is empty",
		"linsk: []":             "line 1: field linsk not found",
		"links: [{name: eth0}]": `link "eth0" needs an index`,
		"links: [{index: 1}]":   `link "" needs an index and a name`,
		"links: [{index: 1, name: a}, {index: 2, name: a}]": `link "a" needs an index and a name of its own`,
		"addresses: [{link: 7, prefix: 10.0.0.1/24}]":       "address 10.0.0.1/24: no link has index 7",
		"routes: [{link: 7, to: 10.0.0.0/24}]":              "route to 10.0.0.0/24: no link has index 7",
	} {
		if _, err := ReadState("f", []byte(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
