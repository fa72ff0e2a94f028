package netcfg

import (
	"net/netip"
	"testing"
)

func (f *fake) happen(t testing.TB, what event, link string) {
	l := f.state.named(link)
	switch what {
	case altName:
		l.AltNames = append(l.AltNames, "bond0")
	case unplug:
		f.dark[l.Index] = true
	case move:
		f.down(l)
		f.dropAddresses(l)
		l.AcceptRA, l.AddrGenMode, l.DisableIPv6 = 1, genByMAC, false
	case checked:
		f.wait()
	case optimistic:
		f.optimistic[l.Index] = true
	case keepOnDown:
		f.keeps[l.Index] = true
	case allForbidRA: // changes no link that is there
	case routeOfRA:
		f.state.Routes = append(f.state.Routes, RouteState{Link: l.Index, Proto: protoRA, Route: Route{
			To: netip.MustParsePrefix("::/0"), Via: netip.MustParseAddr("fe80::1"), Metric: 512, Table: mainTable}})
	case halfWayShut:
		f.mtu(l, 1400)
	default:
		t.Fatal(what)
	}
}
