package netcfg

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"
)

// text is the wish as a test writes it.
func (c *Config) text() string {
	var b strings.Builder
	for _, l := range c.links {
		fmt.Fprintf(&b, "%s:", l.id)
		if l.mtu != 0 {
			fmt.Fprintf(&b, " mtu %d", l.mtu)
		}
		for _, a := range l.addresses {
			fmt.Fprintf(&b, " %s", a.Prefix)
			if a.lifetime != forever {
				fmt.Fprintf(&b, "(%d/%d)", a.preferred, a.valid)
			}
		}
		for _, r := range l.routes {
			fmt.Fprintf(&b, " [%s%s]", r.where(), r.how())
		}
		for _, s := range l.dns.servers {
			fmt.Fprintf(&b, " dns %s", s)
		}
		for _, s := range l.dns.search {
			fmt.Fprintf(&b, " search %s", s)
		}
		for _, w := range l.leaseWaits {
			fmt.Fprintf(&b, " waits %s", w.text())
		}
		b.WriteString("\n")
	}
	return b.String()
}

func cidr(s string) netip.Prefix { return netip.MustParsePrefix(s) }

// exampleLease is one of 10 minutes, 100 s old at the time now.
func exampleLease(at string, mtu int) *lease {
	a := cidr(at)
	return &lease{
		server: "10.0.0.1", expire: 700 * time.Second,
		addresses: []leasedAddress{{a, 700 * time.Second, 700 * time.Second}},
		routes: []Route{
			{To: cidr("0.0.0.0/0"), Via: netip.MustParseAddr("10.0.0.1"), Table: mainTable},
			{To: cidr("192.0.2.0/24"), Table: mainTable, Scope: scopeLink},
		},
		dns: []netip.Addr{netip.MustParseAddr("10.0.0.3")}, search: []string{"lan"}, mtu: mtu,
	}
}

func TestWithLeases(t *testing.T) {
	const now = 200 * time.Second
	with := func(link, name, at string, mtu, most int) tenant {
		return tenant{link: link, name: name, maxMTU: most, clientStatus: clientStatus{lease: exampleLease(at, mtu)}}
	}
	for _, c := range []struct {
		name, wish string
		tenants    []tenant
		want       string
	}{
		{"all of it", `ethernets: {eth0: {dhcp4: true}}`,
			[]tenant{with("eth0", "eth0", "10.0.0.50/24", 1400, 9000)},
			"eth0: mtu 1400 10.0.0.50/24(500/500) [default via 10.0.0.1 src 10.0.0.50 metric 100] [192.0.2.0/24 metric 100] dns 10.0.0.3\n"},
		{"overrides", `ethernets: {eth0: {dhcp4: true, dhcp4-overrides: {use-dns: false, use-mtu: false, use-domains: true, route-metric: 7}}}`,
			[]tenant{with("eth0", "eth0", "10.0.0.50/24", 1400, 9000)},
			"eth0: 10.0.0.50/24(500/500) [default via 10.0.0.1 src 10.0.0.50 metric 7] [192.0.2.0/24 metric 7] search lan\n"},
		{"no routes", `ethernets: {eth0: {dhcp4: true, dhcp4-overrides: {use-routes: false}}}`,
			[]tenant{with("eth0", "eth0", "10.0.0.50/24", 0, 0)},
			"eth0: 10.0.0.50/24(500/500) dns 10.0.0.3\n"},
		{"the document is right", `ethernets: {eth0: {dhcp4: true, mtu: 1500, addresses: [10.0.0.50/16], routes: [{to: default, via: 10.0.0.9, metric: 100}], nameservers: {addresses: [10.0.0.9]}}}`,
			[]tenant{with("eth0", "eth0", "10.0.0.50/24", 1400, 9000)},
			"eth0: mtu 1500 10.0.0.50/16 [default via 10.0.0.9 metric 100] [default via 10.0.0.1 src 10.0.0.50 metric 101] [192.0.2.0/24 metric 100] dns 10.0.0.9 dns 10.0.0.3\n"},
		{"two links, one way out each", `ethernets: {eth0: {dhcp4: true}, eth1: {dhcp4: true}}`,
			[]tenant{with("eth0", "eth0", "10.0.0.50/24", 0, 0), with("eth1", "eth1", "10.0.0.51/24", 0, 0)},
			"eth0: 10.0.0.50/24(500/500) [default via 10.0.0.1 src 10.0.0.50 metric 100] [192.0.2.0/24 metric 100] dns 10.0.0.3\n" +
				"eth1: 10.0.0.51/24(500/500) [default via 10.0.0.1 src 10.0.0.51 metric 101] [192.0.2.0/24 metric 101] dns 10.0.0.3\n"},
		{"the first link's lease is lost", `ethernets: {eth0: {dhcp4: true}, eth1: {dhcp4: true}}`,
			[]tenant{{link: "eth0", name: "eth0", clientStatus: clientStatus{waiting: leaseWait{reason: "no answer", detail: "attempt 4 in 31s"}}}, with("eth1", "eth1", "10.0.0.51/24", 0, 0)},
			"eth0: waits DHCPv4: no answer, attempt 4 in 31s\n" +
				"eth1: 10.0.0.51/24(500/500) [default via 10.0.0.1 src 10.0.0.51 metric 101] [192.0.2.0/24 metric 101] dns 10.0.0.3\n"},
		{"one entry, two interfaces", `ethernets: {all: {match: {name: "eth*"}, dhcp4: true}}`,
			[]tenant{with("all", "eth0", "10.0.0.50/24", 0, 0), {link: "all", name: "eth1", clientStatus: clientStatus{waiting: leaseWait{reason: "no answer", detail: "attempt 4 in 31s"}}}},
			"all/eth0: 10.0.0.50/24(500/500) [default via 10.0.0.1 src 10.0.0.50 metric 100] [192.0.2.0/24 metric 100] dns 10.0.0.3\n" +
				"all/eth1: waits DHCPv4: no answer, attempt 4 in 31s\n"},
		{"an MTU that takes IPv6 away", `ethernets: {eth0: {dhcp4: true, dhcp4-overrides: {use-routes: false}}}`,
			[]tenant{with("eth0", "eth0", "10.0.0.50/24", 1000, 9000)}, "eth0: 10.0.0.50/24(500/500) dns 10.0.0.3\n"},
		{"an MTU that the NIC has not", `ethernets: {eth0: {dhcp4: true, dhcp4-overrides: {use-routes: false}}}`,
			[]tenant{with("eth0", "eth0", "10.0.0.50/24", 9000, 1500)}, "eth0: 10.0.0.50/24(500/500) dns 10.0.0.3\n"},
		{"an MTU below the vlan's", "ethernets: {eth0: {dhcp4: true, dhcp4-overrides: {use-routes: false}}}\nvlans: {v7: {id: 7, link: eth0, mtu: 1500}}",
			[]tenant{with("eth0", "eth0", "10.0.0.50/24", 1400, 9000)}, "eth0: 10.0.0.50/24(500/500) dns 10.0.0.3\nv7: mtu 1500\n"},
		{"over", `ethernets: {eth0: {dhcp4: true, dhcp4-overrides: {use-routes: false}}}`,
			[]tenant{{link: "eth0", name: "eth0", clientStatus: clientStatus{lease: &lease{addresses: []leasedAddress{{cidr("10.0.0.50/24"), now, now}}}}}}, "eth0:\n"},
		{"for ever", `ethernets: {eth0: {dhcp4: true}}`,
			[]tenant{{link: "eth0", name: "eth0", clientStatus: clientStatus{lease: &lease{addresses: []leasedAddress{{cidr("10.0.0.50/24"), noEnd, noEnd}}}}}}, "eth0: 10.0.0.50/24\n"},
		{"136 years", `ethernets: {eth0: {dhcp4: true}}`,
			[]tenant{{link: "eth0", name: "eth0", clientStatus: clientStatus{lease: &lease{addresses: []leasedAddress{{cidr("10.0.0.50/24"), noEnd - 1, noEnd - 1}}}}}}, "eth0: 10.0.0.50/24(4294967294/4294967294)\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			cfg := compileWish(t, c.wish)
			before := cfg.text()
			if got := cfg.withLeases(c.tenants, now).text(); got != c.want {
				t.Errorf("got\n%swant\n%s", got, c.want)
			}
			if after := cfg.text(); after != before {
				t.Errorf("the document changed:\n%s", after)
			}
		})
	}
}

func TestIdentity(t *testing.T) {
	nic := &LinkState{Name: "eth1", MAC: "02:00:00:00:00:09", PermMAC: "52:54:00:12:34:56"}
	port := &link{id: "eth1", name: "eth1"}
	bond := &link{id: "bond0", name: "bond0", kind: kindBond}
	const uuid = "4C4C4544-0051-3510-8052-B4C04F4A3331"
	for _, c := range []struct {
		name    string
		link    *link
		machine string
		by      dhcpID
		want    string
	}{
		{"by MAC", port, uuid, dhcpByMAC, "01020000000009"},
		{"by UUID", port, uuid, dhcpByDUID, "ff00123456" + "0004" + "4c4c4544005135108052b4c04f4a3331"},
		{"a bond", bond, uuid, dhcpByDUID, "ffde104e24" + "0004" + "4c4c4544005135108052b4c04f4a3331"},
		{"no UUID", port, "", dhcpByDUID, "ff00123456" + "00030001" + "525400123456"},
		{"zeros", port, "00000000-0000-0000-0000-000000000000", dhcpByDUID, "ff00123456" + "00030001" + "525400123456"},
		{"ones", port, "FFFFFFFF-FFFF-FFFF-FFFF-FFFFFFFFFFFF", dhcpByDUID, "ff00123456" + "00030001" + "525400123456"},
		{"filler", port, "03000200-0400-0500-0006-000700080009", dhcpByDUID, "ff00123456" + "00030001" + "525400123456"},
		{"text", port, "To be filled by O.E.M.", dhcpByDUID, "ff00123456" + "00030001" + "525400123456"},
	} {
		if got := fmt.Sprintf("%x", identify(c.link, nic, c.machine).clientID(c.by)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// A vlan on an entry that means two NICs, each with a lease of its own, is on
// the first, as it would be without leases.
func TestVLANOnAnEntryWithLeases(t *testing.T) {
	cfg := compileWish(t, `
ethernets: {all: {match: {name: "eth*"}, dhcp4: true}}
vlans: {v5: {id: 5, link: all}}
`)
	f := newFake(t).(*fake)
	for i, mac := range []string{"02:00:00:00:00:00", "02:00:00:00:00:01"} {
		if err := f.AddNIC(fmt.Sprint("eth", i), mac); err != nil {
			t.Fatal(err)
		}
	}
	have, err := f.Observe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	tenants := []tenant{{link: "all", name: "eth0"}, {link: "all", name: "eth1"}}
	made := slices.ContainsFunc(Plan(cfg.withLeases(tenants, 0), have), func(op Op) bool {
		return op.Verb == OpCreate && op.Link == "v5" && op.Other == "eth0"
	})
	if !made {
		t.Error("no v5 on eth0")
	}
}
