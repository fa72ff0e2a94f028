package dhcp4

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math/bits"
	"net/netip"
	"reveille/netcfg/dhcp"
	"slices"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"github.com/insomniacslk/dhcp/rfc1035label"
)

// The most of each that a lease keeps. A resolver reads 3 servers and 6
// domains (resolv.conf(5)); 100 routes are what a message of 576 bytes holds.
const (
	maxServers = 8
	maxSearch  = 32
	maxRoutes  = 100
)

// minLease is the shortest lease that is taken. What is shorter ends before a
// lost packet was sent again, and would take the network up and down.
const minLease = 10 * time.Second

// infinite is the lease time without end (RFC 2131, section 3.3).
const infinite = 0xffffffff

// leaseOf reads the terms of an offer or an acknowledgement. start is when the
// request was sent. What a node can do without is left out when it makes no
// sense; an error means that the whole cannot be used.
func leaseOf(r *reply, start time.Duration) (*Lease, error) {
	if a := r.address; !a.IsGlobalUnicast() && !a.IsLinkLocalUnicast() {
		return nil, fmt.Errorf("%s is no address for one machine", a)
	}
	length, err := prefixLength(r)
	if err != nil {
		return nil, err
	}
	l := &Lease{
		Address:  netip.PrefixFrom(r.address, length),
		Server:   r.server,
		DNS:      addresses(r.option(dhcpv4.OptionDomainNameServer), maxServers),
		NTP:      addresses(r.option(dhcpv4.OptionNTPServers), maxServers),
		Domain:   domain(string(r.option(dhcpv4.OptionDomainName))),
		Hostname: domain(string(r.option(dhcpv4.OptionHostName))),
		Search:   search(r.option(dhcpv4.OptionDNSDomainSearchList)),
		MTU:      mtu(r.option(dhcpv4.OptionInterfaceMTU)),
		Start:    start,
	}
	l.Routes = routes(r, l.Address)
	return l, l.times(r)
}

func prefixLength(r *reply) (int, error) {
	mask := r.option(dhcpv4.OptionSubnetMask)
	if mask == nil {
		// The network's class (RFC 950, section 2.1), as other clients do.
		switch first := r.address.As4()[0]; {
		case first < 128:
			return 8, nil
		case first < 192:
			return 16, nil
		}
		return 24, nil
	}
	if len(mask) != 4 {
		return 0, errors.New("the subnet mask is not of 4 bytes")
	}
	m := binary.BigEndian.Uint32(mask)
	n := bits.LeadingZeros32(^m)
	if n == 0 || m<<n != 0 {
		return 0, fmt.Errorf("%d.%d.%d.%d is no subnet mask", mask[0], mask[1], mask[2], mask[3])
	}
	return n, nil
}

// times fills in when the lease is renewed and ends. T1 and T2 of the server
// are taken if they are in order, else RFC 2131's shares (section 4.4.5).
func (l *Lease) times(r *reply) error {
	whole, ok := r.seconds(dhcpv4.OptionIPAddressLeaseTime)
	switch {
	case !ok:
		return errors.New("it has no lease time")
	case whole == infinite*time.Second:
		l.Renew, l.Rebind, l.Expire = dhcp.Forever, dhcp.Forever, dhcp.Forever
		return nil
	case whole < minLease:
		return fmt.Errorf("a lease of %s is too short to renew", whole)
	}
	t1, ok1 := r.seconds(dhcpv4.OptionRenewTimeValue)
	t2, ok2 := r.seconds(dhcpv4.OptionRebindingTimeValue)
	if !ok2 || t2 >= whole || t2 < minLease/2 {
		t2 = whole - whole/8
	}
	if !ok1 || t1 >= t2 || t1 < minLease/4 {
		t1 = min(whole/2, t2-t2/8)
	}
	l.Renew, l.Rebind, l.Expire = l.Start+t1, l.Start+t2, l.Start+whole
	return nil
}

// routes are the classless ones, and then only those (RFC 3442), or the
// default route by the first router.
func routes(r *reply, own netip.Prefix) []Route {
	var out []Route
	var classless dhcpv4.Routes
	option := r.option(dhcpv4.OptionClasslessStaticRoute)
	if err := classless.FromBytes(option); option == nil || err != nil {
		if routers := addresses(r.option(dhcpv4.OptionRouter), 1); len(routers) > 0 {
			out = append(out, Route{To: netip.PrefixFrom(netip.IPv4Unspecified(), 0), Via: routers[0]})
		}
	}
	for _, c := range classless {
		length, _ := c.Dest.Mask.Size()
		to, _ := netip.AddrFromSlice(c.Dest.IP)
		via, _ := netip.AddrFromSlice(c.Router)
		if via.IsUnspecified() {
			via = netip.Addr{} // on the link
		}
		route := Route{To: netip.PrefixFrom(to, length).Masked(), Via: via}
		same := func(o Route) bool { return o.To == route.To }
		if via == own.Addr() || via.IsMulticast() || to.IsMulticast() || to.IsLoopback() ||
			len(out) == maxRoutes || slices.ContainsFunc(out, same) {
			continue
		}
		out = append(out, route)
	}
	for i, route := range out {
		reached := own.Contains(route.Via) || slices.ContainsFunc(out, func(o Route) bool {
			return !o.Via.IsValid() && o.To.Contains(route.Via)
		})
		out[i].OnLink = route.Via.IsValid() && !reached
	}
	return out
}

// addresses reads at most n addresses of machines.
func addresses(b []byte, n int) []netip.Addr {
	var out []netip.Addr
	for ; len(b) >= 4 && len(out) < n; b = b[4:] {
		a := netip.AddrFrom4([4]byte(b))
		if !a.IsUnspecified() && !a.IsMulticast() && a.As4()[0] < 240 && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// domain is s if it is a name of the DNS, else "": names go into resolv.conf,
// where a line break in one would be a line of its own.
func domain(s string) string {
	s = strings.TrimRight(s, "\x00") // some servers end strings as C does
	s = strings.TrimSuffix(s, ".")
	if s == "" || len(s) > 253 {
		return ""
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || strings.ContainsFunc(label, notOfName) {
			return ""
		}
	}
	return s
}

func notOfName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}

// maxSearchLength is in bytes. The library's reader of names allocates the cube
// of them, because names may point to names (RFC 3397, section 2).
const maxSearchLength = 512

func search(b []byte) []string {
	if len(b) > maxSearchLength {
		return nil
	}
	labels, err := rfc1035label.FromBytes(b)
	if err != nil {
		return nil
	}
	var out []string
	for _, name := range labels.Labels {
		if name = domain(name); name != "" && len(out) < maxSearch && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

// mtu is 0 for one that IPv4 cannot work with (RFC 2132, section 5.1).
func mtu(b []byte) int {
	if len(b) != 2 {
		return 0
	}
	if n := int(binary.BigEndian.Uint16(b)); n >= 68 {
		return n
	}
	return 0
}
