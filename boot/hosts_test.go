package boot

import (
	"net/netip"
	"reflect"
	"testing"

	"reveille/boot/cluster/clusterv1"
	"reveille/netcfg"
)

func TestControllerHosts(t *testing.T) {
	got := controllerHosts(&clusterv1.Directory{Controllers: []*clusterv1.Controller{
		{Name: "c1", Addresses: []string{"10.0.0.10:7443", "[fd00::10]:7443"}},
		{Name: "c2", Addresses: []string{"c2.example.org:7443", "10.0.0.11"}},
	}})
	want := []netcfg.Host{
		{Addr: netip.MustParseAddr("10.0.0.10"), Names: []string{"c1"}},
		{Addr: netip.MustParseAddr("fd00::10"), Names: []string{"c1"}},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}
