package dhcp4

import (
	"bytes"
	"net"
	"net/netip"
	"reveille/netcfg/dhcp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/rfc1035label"
)

// leaseFrom is the lease of an acknowledgement with the options.
func leaseFrom(t *testing.T, options ...dhcpv4.Option) *Lease {
	t.Helper()
	to := &dhcpv4.DHCPv4{HWType: 1, ClientHWAddr: ownMAC[:]}
	r, err := parse(answer(to, dhcpv4.MessageTypeAck, server1, "10.0.0.50", options...))
	if err != nil {
		t.Fatal(err)
	}
	l, err := leaseOf(r, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func raw(code dhcpv4.OptionCode, b ...byte) dhcpv4.Option { return dhcpv4.OptGeneric(code, b) }

func TestRoutes(t *testing.T) {
	const classless = dhcpv4.OptionClasslessStaticRoute
	router := dhcpv4.OptRouter(net.IPv4(10, 0, 0, 254), net.IPv4(10, 0, 0, 253))
	host := dhcpv4.OptSubnetMask(net.CIDRMask(32, 32))
	for _, c := range []struct {
		name    string
		options []dhcpv4.Option
		want    string
	}{
		{"the first router", []dhcpv4.Option{router}, "0.0.0.0/0 via 10.0.0.254"},
		{"none", nil, ""},
		{"classless without a default: no router counts", []dhcpv4.Option{router, raw(classless, 8, 192, 10, 0, 0, 9)}, "192.0.0.0/8 via 10.0.0.9"},
		{"link route first", []dhcpv4.Option{host, raw(classless, 32, 203, 0, 113, 1, 0, 0, 0, 0, 0, 203, 0, 113, 1)}, "203.0.113.1/32, 0.0.0.0/0 via 203.0.113.1"},
		{"link route last", []dhcpv4.Option{host, raw(classless, 0, 203, 0, 113, 1, 32, 203, 0, 113, 1, 0, 0, 0, 0)}, "0.0.0.0/0 via 203.0.113.1, 203.0.113.1/32"},
		{"a router outside of the network", []dhcpv4.Option{host, dhcpv4.OptRouter(net.IPv4(203, 0, 113, 1))}, "0.0.0.0/0 via 203.0.113.1 onlink"},
		{"bits beyond the length", []dhcpv4.Option{raw(classless, 20, 172, 16, 31, 10, 0, 0, 9)}, "172.16.16.0/20 via 10.0.0.9"},
		{"malformed classless: the router", []dhcpv4.Option{router, raw(classless, 8, 192, 10)}, "0.0.0.0/0 via 10.0.0.254"},
		{"length 33", []dhcpv4.Option{router, raw(classless, 33, 1, 2, 3, 4, 5, 10, 0, 0, 9)}, "0.0.0.0/0 via 10.0.0.254"},
		{"through ourselves", []dhcpv4.Option{raw(classless, 8, 192, 10, 0, 0, 50)}, ""},
		{"twice", []dhcpv4.Option{raw(classless, 8, 192, 10, 0, 0, 9, 8, 192, 10, 0, 0, 8)}, "192.0.0.0/8 via 10.0.0.9"},
	} {
		var got []string
		for _, r := range leaseFrom(t, c.options...).Routes {
			s := r.To.String()
			if r.Via.IsValid() {
				s += " via " + r.Via.String()
			}
			if r.OnLink {
				s += " onlink"
			}
			got = append(got, s)
		}
		if s := strings.Join(got, ", "); s != c.want {
			t.Errorf("%s: %q, want %q", c.name, s, c.want)
		}
	}
}

func TestLeaseTimes(t *testing.T) {
	const sec = time.Second
	for _, c := range []struct {
		name               string
		lease, t1, t2      time.Duration // 0 for absent
		want1, want2, want time.Duration
	}{
		{"defaults", 600 * sec, 0, 0, 300 * sec, 525 * sec, 600 * sec},
		{"the server's", 600 * sec, 100 * sec, 200 * sec, 100 * sec, 200 * sec, 600 * sec},
		{"T1 after T2", 600 * sec, 590 * sec, 200 * sec, 175 * sec, 200 * sec, 600 * sec},
		{"T2 after the end", 600 * sec, 100 * sec, 700 * sec, 100 * sec, 525 * sec, 600 * sec},
		{"all the same", 600 * sec, 600 * sec, 600 * sec, 300 * sec, 525 * sec, 600 * sec},
		{"T1 of a second", 600 * sec, sec, 200 * sec, 175 * sec, 200 * sec, 600 * sec},
		{"the longest", 0xfffffffe * sec, 0, 0, 0x7fffffff * sec, 0xfffffffe*sec - 0xfffffffe*sec/8, 0xfffffffe * sec},
		{"T1 and T2 infinite", 600 * sec, 0xffffffff * sec, 0xffffffff * sec, 300 * sec, 525 * sec, 600 * sec},
	} {
		options := []dhcpv4.Option{dhcpv4.OptIPAddressLeaseTime(c.lease)}
		if c.t1 > 0 {
			options = append(options, dhcpv4.OptRenewTimeValue(c.t1))
		}
		if c.t2 > 0 {
			options = append(options, dhcpv4.OptRebindingTimeValue(c.t2))
		}
		l := leaseFrom(t, options...)
		if l.Renew-l.Start != c.want1 || l.Rebind-l.Start != c.want2 || l.Expire-l.Start != c.want {
			t.Errorf("%s: %s %s %s", c.name, l.Renew-l.Start, l.Rebind-l.Start, l.Expire-l.Start)
		}
	}
	if l := leaseFrom(t, dhcpv4.OptIPAddressLeaseTime(infinite*sec), dhcpv4.OptRenewTimeValue(5*sec)); l.Renew != dhcp.Forever || l.Expire != dhcp.Forever {
		t.Errorf("infinite: %+v", l)
	}
}

func TestNames(t *testing.T) {
	l := leaseFrom(t,
		dhcpv4.OptDomainName("example.org."), dhcpv4.OptHostName("host\x00"),
		dhcpv4.OptDomainSearch(&rfc1035label.Labels{Labels: []string{"a.example", "b.example", "a.example", "bad name"}}),
		dhcpv4.OptDNS(net.IPv4(10, 0, 0, 3), net.IPv4zero, net.IPv4(10, 0, 0, 3), net.IPv4(10, 0, 0, 4)),
		dhcpv4.OptNTPServers(net.IPv4(10, 0, 0, 5)), raw(dhcpv4.OptionInterfaceMTU, 5, 120))
	if l.Domain != "example.org" || l.Hostname != "host" || !slices.Equal(l.Search, []string{"a.example", "b.example"}) || l.MTU != 1400 {
		t.Errorf("lease %+v", l)
	}
	if len(l.DNS) != 2 || l.DNS[1] != netip.MustParseAddr("10.0.0.4") || len(l.NTP) != 1 {
		t.Errorf("servers %v, %v", l.DNS, l.NTP)
	}
	for _, bad := range []string{"x\nnameserver 6.6.6.6", "a..b", "-a", "a b", ".", strings.Repeat("a", 64), "ü"} {
		if l := leaseFrom(t, dhcpv4.OptDomainName(bad), dhcpv4.OptHostName(bad)); l.Domain != "" || l.Hostname != "" {
			t.Errorf("took %q", bad)
		}
	}
	if l := leaseFrom(t, raw(dhcpv4.OptionInterfaceMTU, 0, 1), raw(dhcpv4.OptionDNSDomainSearchList, 0xc0, 0)); l.MTU != 0 || l.Search != nil {
		t.Errorf("lease %+v", l)
	}
	// One long name, then pointers to it: each is a copy.
	long := append(bytes.Repeat([]byte{1, 'a'}, 300), 0)
	long = append(long, bytes.Repeat([]byte{0xc0, 0}, 600)...)
	if n := testing.AllocsPerRun(1, func() { search(long) }); n > 0 {
		t.Errorf("a long list: %v allocations", n)
	}
}

// Long options come in parts (RFC 3396), and in the header's other fields.
func TestSplitAndOverloaded(t *testing.T) {
	var routes []*dhcpv4.Route
	for i := range 60 {
		routes = append(routes, &dhcpv4.Route{Dest: &net.IPNet{IP: net.IP{172, 16, byte(i), 0}, Mask: net.CIDRMask(24, 32)}, Router: net.IP{10, 0, 0, 9}})
	}
	if l := leaseFrom(t, dhcpv4.OptClasslessStaticRoute(routes...)); len(l.Routes) != 60 {
		t.Errorf("%d routes", len(l.Routes))
	}
	to := &dhcpv4.DHCPv4{HWType: 1, ClientHWAddr: ownMAC[:]}
	b := answer(to, dhcpv4.MessageTypeAck, server1, "10.0.0.50", raw(dhcpv4.OptionOptionOverload, 3), dhcpv4.OptDNS(net.IPv4(10, 0, 0, 3)))
	copy(b[fileAt:], []byte{6, 4, 10, 0, 0, 4, 255})
	copy(b[snameAt:], []byte{15, 3, 'l', 'a', 'n', 255})
	r, err := parse(b)
	if err != nil {
		t.Fatal(err)
	}
	l, err := leaseOf(r, 0)
	if err != nil || len(l.DNS) != 2 || l.Domain != "lan" {
		t.Errorf("%+v, %v", l, err)
	}
	copy(b[fileAt:], []byte{6, 200})
	if _, err := parse(b); err == nil {
		t.Error("took options that are cut off")
	}
}

func TestFrames(t *testing.T) {
	f := udpFrame(server1, server2, []byte("odd"))
	if checksum(0, f[:ipHeader]) != 0 {
		t.Error("header checksum")
	}
	pseudo := checksum(protoUDP+uint32(len(f)-ipHeader), f[12:20])
	if checksum(uint32(^pseudo), f[ipHeader:]) != 0 {
		t.Error("UDP checksum")
	}
	// The way back, and padded as Ethernet does.
	f[ipHeader], f[ipHeader+1], f[ipHeader+2], f[ipHeader+3] = 0, serverPort, 0, clientPort
	if p, err := udpPayload(append(f, make([]byte, 20)...)); err != nil || string(p) != "odd" {
		t.Errorf("%q, %v", p, err)
	}
	for cut := range f {
		if _, err := udpPayload(f[:cut]); err == nil {
			t.Errorf("took %d of %d bytes", cut, len(f))
		}
	}
	f[6] = 0x20
	if _, err := udpPayload(f); err == nil {
		t.Error("took a fragment")
	}
	mac, sender, target, ok := parseARP(arpFrame(ownMAC, server1, server2))
	if mac != ownMAC || sender != server1 || target != server2 || !ok {
		t.Error(mac, sender, target, ok)
	}
}
