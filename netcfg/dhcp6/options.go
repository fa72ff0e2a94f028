package dhcp6

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"reveille/netcfg/dhcp"
	"slices"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
)

// The most of each that a lease keeps.
const (
	maxAddresses = 16
	maxServers   = 8
	maxSearch    = 32
)

const (
	infinite = 0xffffffff * time.Second // RFC 8415, section 7.7

	// minLife is the shortest valid lifetime that is taken: what is shorter
	// ends before a lost packet was sent again.
	minLife = 10 * time.Second

	// A server that names no refresh time is asked again after a day, and
	// never more often than each 10 minutes (IRT_DEFAULT, IRT_MINIMUM, RFC
	// 8415, section 7.6).
	refreshDefault = 24 * time.Hour
	refreshLeast   = 10 * time.Minute
)

// refusal is a status code that is not success.
type refusal struct {
	code iana.StatusCode
	text string
}

func (r refusal) Error() string {
	if r.text == "" {
		return r.code.String()
	}
	return fmt.Sprintf("%s (%s)", r.code, r.text)
}

// check is a status as an error. Its text is a server's: one short line of it.
func check(s *dhcpv6.OptStatusCode) error {
	if s == nil || s.StatusCode == iana.StatusSuccess {
		return nil
	}
	text := strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return -1
		}
		return r
	}, s.StatusMessage)
	return refusal{s.StatusCode, text[:min(len(text), 60)]}
}

// leaseOf reads the terms of a message. The error is a refusal when the server
// said so.
func leaseOf(d *dhcpv6.Message, from netip.Addr, iaid [4]byte, start time.Duration) (*Lease, error) {
	if err := check(d.Options.Status()); err != nil {
		return nil, err
	}
	l := &Lease{
		Server: d.Options.ServerID().ToBytes(), From: from, Start: start,
		DNS: addresses(d.Options.DNS()), NTP: addresses(append(d.Options.NTPServers(), d.Options.SNTP()...)),
		Renew: dhcp.Forever, Rebind: dhcp.Forever, Expire: dhcp.Forever,
	}
	if labels := d.Options.DomainSearchList(); labels != nil {
		l.Search = domains(labels.Labels)
	}
	for _, ia := range d.Options.IANA() {
		if ia.IaId == iaid {
			return l, l.take(ia)
		}
	}
	l.unassigned = true
	refresh := d.Options.InformationRefreshTime(refreshDefault)
	if refresh != infinite {
		l.Renew = start + max(refresh, refreshLeast)
	}
	return l, nil
}

var errNoAddress = errors.New("it has no address for us")

// take reads the addresses and the times of an IA.
func (l *Lease) take(ia *dhcpv6.OptIANA) error {
	if err := check(ia.Options.Status()); err != nil {
		return err
	}
	shortest := dhcp.Forever
	l.Expire = 0
	for _, a := range ia.Options.Addresses() {
		ip, _ := netip.AddrFromSlice(a.IPv6Addr)
		if !ip.IsGlobalUnicast() || ip.Is4In6() || a.PreferredLifetime > a.ValidLifetime ||
			a.ValidLifetime < minLife || check(a.Options.Status()) != nil || len(l.Addresses) == maxAddresses {
			continue
		}
		until := Address{ip, l.after(a.PreferredLifetime), l.after(a.ValidLifetime)}
		l.Addresses = append(l.Addresses, until)
		l.Expire = max(l.Expire, until.Valid)
		if a.PreferredLifetime > 0 {
			shortest = min(shortest, until.Preferred)
		} else {
			shortest = min(shortest, until.Valid)
		}
	}
	if len(l.Addresses) == 0 {
		return errNoAddress
	}
	l.times(ia, shortest)
	return nil
}

func (l *Lease) after(d time.Duration) time.Duration {
	if d == infinite {
		return dhcp.Forever
	}
	return l.Start + d
}

// times takes the server's T1 and T2 if they are in order, else the shares of
// the shortest preferred lifetime that RFC 8415 recommends (section 21.4).
func (l *Lease) times(ia *dhcpv6.OptIANA, shortest time.Duration) {
	l.Renew, l.Rebind = l.after(ia.T1), l.after(ia.T2)
	ordered := ia.T1 >= minLife/4 && ia.T1 <= ia.T2 && l.Rebind <= l.Expire
	if ordered {
		return
	}
	if l.Renew, l.Rebind = dhcp.Forever, dhcp.Forever; shortest != dhcp.Forever {
		span := shortest - l.Start
		l.Renew, l.Rebind = l.Start+span/2, l.Start+span/5*4
	}
}

func addresses(ips []net.IP) []netip.Addr {
	var out []netip.Addr
	for _, ip := range ips {
		a, ok := netip.AddrFromSlice(ip)
		if ok && a.Is6() && !a.IsUnspecified() && !a.IsMulticast() && !a.Is4In6() && len(out) < maxServers && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// domains keeps names of the DNS: they go into resolv.conf, where a line break
// in one would be a line of its own.
func domains(names []string) []string {
	var out []string
	for _, name := range names {
		name = strings.TrimSuffix(name, ".")
		if isDomain(name) && len(out) < maxSearch && !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	return out
}

func isDomain(s string) bool {
	if s == "" || len(s) > 253 {
		return false
	}
	for label := range strings.SplitSeq(s, ".") {
		if label == "" || len(label) > 63 || label[0] == '-' || strings.ContainsFunc(label, notOfName) {
			return false
		}
	}
	return true
}

func notOfName(r rune) bool {
	return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
}
