package netcfg

import (
	"net/netip"
	"slices"
	"testing"
	"time"
)

// An 802.3ad bond of two ports that work, for the cases to spoil.
func lacpState() State {
	working := PortState{Active: true, MIIUp: true, Aggregator: 1, Actor: 0x3d, Partner: 0x3d, PartnerMAC: "02:00:00:00:00:aa", Speed: 10000}
	port := func(index int, name string) LinkState {
		return LinkState{Index: index, Name: name, Up: true, Carrier: true, MTU: 1500, Master: 3, Port: working}
	}
	return State{Links: []LinkState{
		port(1, "eth0"), port(2, "eth1"),
		{Index: 3, Name: "bond0", Kind: "bond", Up: true, Carrier: true, MTU: 1500,
			Bond: BondOptions{"mode": "802.3ad", "miimon": "100", "arp_interval": "0", "min_links": "0"},
			LACP: LACPState{Aggregator: 1, Ports: 2, Partner: "02:00:00:00:00:aa"}},
		{Index: 4, Name: "v", Kind: "vlan", Up: true, Carrier: true, MTU: 1500, VLAN: 7, Parent: 3},
	}}
}

func TestDoctor(t *testing.T) {
	cfg := compileWish(t, `
bonds: {bond0: {interfaces: [eth0, eth1], parameters: {mode: 802.3ad}}}
vlans: {v: {id: 7, link: bond0}}`)
	silent := PortState{MIIUp: true, Aggregator: 2, Actor: 0x45, Partner: 0x01}
	for _, c := range []struct {
		name  string
		spoil func(eth0, eth1, bond, vlan *LinkState, s *State)
		want  []string
	}{
		{"all is well", func(_, _, _, _ *LinkState, _ *State) {}, nil},
		{"one port hears nobody", func(_, eth1, _, _ *LinkState, _ *State) { eth1.Port = silent },
			[]string{"eth1 has no LACP partner"}},
		{"none hears anybody", func(eth0, eth1, _, _ *LinkState, _ *State) { eth0.Port, eth1.Port = silent, silent },
			[]string{"no port has an LACP partner: the other side does not do LACP"}},
		{"two switches", func(_, eth1, _, _ *LinkState, _ *State) {
			eth1.Port.Aggregator, eth1.Port.PartnerMAC, eth1.Port.Partner = 2, "02:00:00:00:00:bb", 0x05
		}, []string{"eth0 and eth1 are in two aggregators: their partners are 02:00:00:00:00:aa and 02:00:00:00:00:bb, not one switch"}},
		{"two groups of one switch", func(_, eth1, _, _ *LinkState, _ *State) { eth1.Port.Aggregator = 2 },
			[]string{"eth0 and eth1 are in two aggregators: partner 02:00:00:00:00:aa has them in different groups or speeds"}},
		{"out of sync", func(_, eth1, _, _ *LinkState, _ *State) { eth1.Port.Partner = 0x05 },
			[]string{"eth1 is out of sync with its LACP partner 02:00:00:00:00:aa"}},
		{"a port without carrier is not asked for a partner", func(_, eth1, _, _ *LinkState, _ *State) {
			eth1.Carrier, eth1.Port = false, PortState{}
		}, nil},
		{"nobody looks at the links", func(_, _, bond, _ *LinkState, _ *State) { bond.Bond["miimon"] = "0" },
			[]string{"no link monitoring (mii-monitor-interval 0): a dead port would stay in use"}},
		{"two speeds", func(_, eth1, _, _ *LinkState, _ *State) { eth1.Port.Speed = 1000 },
			[]string{"eth0 runs at 10000 Mb/s, eth1 at 1000"}},
		{"a speed that is not known", func(_, eth1, _, _ *LinkState, _ *State) { eth1.Port.Speed = 0 }, nil},
		{"two speeds of which one is spare", func(_, eth1, bond, _ *LinkState, _ *State) {
			eth1.Port.Speed, bond.Bond["mode"] = 1000, "active-backup"
		}, nil},
		{"half duplex", func(eth0, _, _, _ *LinkState, _ *State) { eth0.Port.HalfDuplex = true },
			[]string{"eth0 runs at half duplex"}},
		{"a port's MTU", func(_, eth1, bond, _ *LinkState, _ *State) { eth1.MTU, bond.MTU = 1500, 9000; bond.MTU = 9000 },
			[]string{"eth0 has MTU 1500, not the bond's 9000", "eth1 has MTU 1500, not the bond's 9000"}},
		{"a vlan's MTU", func(_, _, _, vlan *LinkState, _ *State) { vlan.MTU = 9000 },
			[]string{"its MTU 9000 is above the 1500 of bond0"}},
		{"fewer than min-links", func(_, eth1, bond, _ *LinkState, _ *State) {
			eth1.Carrier, bond.Carrier, bond.Bond["min_links"] = false, false, "2"
		}, []string{"fewer ports work than min-links 2 asks for"}},
		{"a router that forwards", func(_, _, bond, _ *LinkState, s *State) {
			bond.Forwarding, bond.AcceptRA = true, acceptRAHost
			s.Routes = []RouteState{{Link: 3, Proto: protoRA, Route: Route{To: netip.MustParsePrefix("::/0"), Metric: 1024, Table: mainTable}}}
		}, []string{"forwarding is on, so its advertised routes will expire; accept-ra: true keeps them"}},
	} {
		s := lacpState()
		c.spoil(&s.Links[0], &s.Links[1], &s.Links[2], &s.Links[3], &s)
		var got []string
		for _, l := range statusOf(cfg, s, nil).Links {
			for _, f := range l.Findings {
				got = append(got, f.Text)
			}
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s:\n%q, want\n%q", c.name, got, c.want)
		}
	}
}

// A finding is a problem once it has lasted, and not before; one that comes
// again begins anew.
func TestFindingsSettle(t *testing.T) {
	start := time.Unix(0, 0)
	s := settling{since: map[string]time.Time{}}
	status := func(after time.Duration, findings ...Finding) LinkStatus {
		links := []LinkStatus{{ID: "bond0", Findings: findings}}
		s.settle(links, start.Add(after))
		return links[0]
	}
	silent := Finding{"eth1 has no LACP partner", 6 * time.Second}
	if l := status(0, silent); l.Problem != "" || !l.settling {
		t.Errorf("at once: %+v", l)
	}
	if next, some := s.next(start.Add(4 * time.Second)); !some || next != 2*time.Second {
		t.Errorf("looks again in %s, %t", next, some)
	}
	if l := status(6*time.Second, silent); l.Problem != silent.Text || l.settling {
		t.Errorf("after 6 s: %+v", l)
	}
	if l := status(7 * time.Second); l.Problem != "" {
		t.Errorf("mended: %+v", l)
	}
	if _, some := s.next(start.Add(7 * time.Second)); some {
		t.Error("looks again for nothing")
	}
	if l := status(8*time.Second, silent); l.Problem != "" {
		t.Errorf("again, at once: %+v", l)
	}
}

func TestParseBonding(t *testing.T) {
	f := parseBonding(bondingExample)
	if f.actor != "02:00:00:00:00:01" || len(f.ports) != 2 {
		t.Fatalf("%+v", f)
	}
	if p := f.ports["eth0"]; p.PartnerMAC != "02:00:00:00:00:aa" || p.Speed != 10000 || p.Churned || p.HalfDuplex {
		t.Errorf("eth0 %+v", p)
	}
	if p := f.ports["eth1"]; p.PartnerMAC != "" || p.Speed != 0 || !p.Churned || !p.HalfDuplex {
		t.Errorf("eth1 %+v", p)
	}
}

const bondingExample = `Ethernet Channel Bonding Driver: v6.1.0

Bonding Mode: IEEE 802.3ad Dynamic link aggregation
MII Status: up

802.3ad info
System MAC address: 02:00:00:00:00:01
Active Aggregator Info:
	Aggregator ID: 1
	Partner Mac Address: 02:00:00:00:00:aa

Slave Interface: eth0
MII Status: up
Speed: 10000 Mbps
Duplex: full
Aggregator ID: 1
Actor Churn State: none
Partner Churn State: monitoring
details actor lacp pdu:
    system mac address: 02:00:00:00:00:01
    port state: 61
details partner lacp pdu:
    system mac address: 02:00:00:00:00:aa
    port state: 61

Slave Interface: eth1
MII Status: up
Speed: Unknown
Duplex: half
Aggregator ID: 2
Actor Churn State: churned
Partner Churn State: churned
details partner lacp pdu:
    system mac address: 00:00:00:00:00:00
`

func FuzzParseBonding(f *testing.F) {
	f.Add(bondingExample)
	f.Add("Slave Interface: \nSpeed: -1 Mbps\nSpeed: 99999999999 Mbps\n")
	f.Fuzz(func(t *testing.T, text string) {
		for name, p := range parseBonding(text).ports {
			if p.Speed < 0 {
				t.Errorf("%q: speed %d", name, p.Speed)
			}
		}
	})
}
