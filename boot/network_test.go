package boot

import (
	"net/netip"
	"testing"

	"reveille/netcfg"
)

func TestEveryNetworkThatWaitsSaysWhy(t *testing.T) {
	up := []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	gone := netcfg.Wait{Link: "eth1", Reason: "no interface named eth1"}
	optional := netcfg.Wait{Link: "eth2", Reason: "no carrier", Optional: true}
	checking := netcfg.Wait{Link: "bond0", Reason: "fd00::1 is being checked", Passing: true}
	for _, c := range []struct {
		name   string
		status netcfg.Status
		want   string
	}{
		{"all there", netcfg.Status{Converged: true, Addresses: up}, ""},
		{"still checking", netcfg.Status{Converged: true, Waits: []netcfg.Wait{checking}}, ""},
		{"one is missing", netcfg.Status{Converged: true, Addresses: up, Waits: []netcfg.Wait{gone}}, "eth1: no interface named eth1"},
		{"two are missing", netcfg.Status{Converged: true, Waits: []netcfg.Wait{gone, gone}}, "eth1: no interface named eth1 (and 1 more)"},
		{"refused", netcfg.Status{Failed: "enslave eth0 to bond0: device or resource busy", Addresses: up}, "enslave eth0 to bond0: device or resource busy"},
		{"optional and up", netcfg.Status{Converged: true, Addresses: up, Waits: []netcfg.Wait{optional}}, ""},
		{"only optional", netcfg.Status{Converged: true, Waits: []netcfg.Wait{optional}}, "no usable address; eth2, which is optional: no carrier"},
		{"no address at all", netcfg.Status{Converged: true}, "no usable address: the node parameters configure none"},
	} {
		if got := explainNetwork(c.status); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
		if got := allThere(c.status); got != (c.want == "" && c.status.Ready()) {
			t.Errorf("%s: all there: %t", c.name, got)
		}
	}
}
