package boot

import (
	"fmt"
	"net/netip"
	"testing"

	"reveille/netcfg"
)

func TestLinksOfAHeartbeat(t *testing.T) {
	var s netcfg.Status
	for i := range 40 {
		s.Links = append(s.Links, netcfg.LinkStatus{ID: fmt.Sprintf("v%d", i), Name: fmt.Sprintf("v%d", i)})
	}
	s.Links[39] = netcfg.LinkStatus{
		ID: "bond0", Kind: "bond", Mode: "802.3ad", Problem: "eth1: no interface named eth1",
		LACP:      netcfg.LACPState{Partner: "02:00:00:00:00:aa", Aggregator: 3},
		Addresses: []netcfg.AddressStatus{{Prefix: netip.MustParsePrefix("10.0.0.1/24"), State: "ok", Wanted: true}},
		Ports: []netcfg.PortStatus{
			{ID: "eth0", Name: "lan0", Carrier: true, Working: true, PortState: netcfg.PortState{PartnerMAC: "02:00:00:00:00:aa", Speed: 1000, Failures: 2}},
			{ID: "eth1"},
		},
	}
	list, more := links(s)
	if len(list) != maxLinks || more != 24 {
		t.Fatalf("%d links and %d more", len(list), more)
	}
	l := list[0]
	if l.GetName() != "bond0" || l.GetProblem() == "" || l.GetLacpPartner() != "02:00:00:00:00:aa" || l.GetAggregator() != 3 {
		t.Errorf("trouble does not come first: %v", l)
	}
	if p := l.GetPorts(); len(p) != 2 || p[0].GetName() != "lan0" || !p[0].GetInUse() || p[0].GetCarrierLosses() != 2 || p[1].GetName() != "eth1" {
		t.Errorf("ports %v", p)
	}
	if a := l.GetAddresses(); len(a) != 1 || a[0].GetPrefix() != "10.0.0.1/24" || !a[0].GetWanted() {
		t.Errorf("addresses %v", a)
	}
}
