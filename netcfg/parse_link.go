package netcfg

import (
	"net"
	"net/netip"
	"path"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// The keys of a link, of whatever kind.

// common reads the keys that every kind of device has.
func (c *compiler) common(l *link, m Mapping) {
	renderer(m.Get("renderer"))
	l.mac, l.macPerm = macAddress(m.Get("macaddress"))
	// 68 bytes is IPv4's least MTU (RFC 791); IPv6 wants 1280 (RFC 8200), see addAddress.
	l.mtu = m.Get("mtu").Int(68, 65535)
	l.activation = readActivation(m.Get("activation-mode"))
	l.optional = m.Get("optional").Bool() || l.activation != activateUp
	l.ignoreCarrier = m.Get("ignore-carrier").Bool()
	for _, item := range m.Get("optional-addresses").Sequence() {
		l.optionalAddresses = appendNew(l.optionalAddresses, item.Enum(optionalKinds...))
	}
	// An address is never given up when the agent ends, critical or not.
	m.Get("critical").Bool()

	c.ipv6(l, m)
	l.dhcp4, l.dhcp6 = readDHCP(m, "dhcp4"), readDHCP(m, "dhcp6")
	l.dhcpID = readIdentifier(m.Get("dhcp-identifier"))

	for _, item := range m.Get("addresses").Sequence() {
		c.addAddress(l, item)
	}
	for _, key := range []string{"gateway4", "gateway6"} {
		if v := m.Get(key); v.Set() {
			r, ok := gateway(v, key == "gateway6")
			c.addRoute(l, v, r, ok)
		}
	}
	for _, item := range m.Get("routes").Sequence() {
		r, ok := route(item)
		c.addRoute(l, item, r, ok)
	}
	for _, item := range m.Get("routing-policy").Sequence() {
		if r, ok := rule(item); ok {
			l.rules = appendNew(l.rules, r)
		}
	}
	nameservers(l, m.Get("nameservers"))
	c.portKeys(l, m)
}

func (c *compiler) ethernet(l *link, m Mapping) {
	if v := m.Get("wakeonlan"); v.Set() {
		on := v.Bool()
		l.wakeOnLAN = &on
	}
	name := m.Get("set-name")
	on := m.Get("match")
	if name.Set() && !on.Set() {
		name.Invalid("needs a match that says which interface gets the name")
	}
	if !on.Set() {
		return
	}
	l.name = name.Scalar()
	if name.Set() && !validName(l.name) {
		name.Invalid("is no interface name: 1 to 15 bytes without blanks, '/' and ':'")
	}
	l.match = &match{}
	mm := on.Mapping(matchKeys)
	l.match.mac = ethernetAddress(mm.Get("macaddress"))
	l.match.name = glob(mm.Get("name"))
	if v := mm.Get("driver"); v.Set() && v.Node().Kind == yaml.SequenceNode {
		for _, item := range v.Sequence() {
			l.match.drivers = append(l.match.drivers, glob(item))
		}
		if l.match.drivers == nil {
			v.Invalid("wants a driver at least")
		}
	} else if v.Set() {
		l.match.drivers = []string{glob(v)}
	}
}

func glob(v Value) string {
	s := v.Scalar()
	if _, err := path.Match(s, ""); err != nil || strings.ContainsFunc(s, unicode.IsSpace) {
		v.Invalid("is no shell pattern, or has blanks in it")
	}
	return s
}

// macAddress is a MAC address, or that the burned-in one is wanted.
func macAddress(v Value) (mac string, permanent bool) {
	switch s := v.Scalar(); s {
	case "":
		return "", false
	case "permanent":
		return "", true
	case "random", "stable", "stable-ssid", "preserve":
		v.Unsupported("%s %s", s, unsupported)
		return "", false
	}
	mac = ethernetAddress(v)
	if b, err := net.ParseMAC(mac); err == nil && (b[0]&1 != 0 || mac == "00:00:00:00:00:00") {
		v.Unsupported("wants the address of one station, not a group's or zero")
	}
	return mac, false
}

// ethernetAddress is a MAC address in lower case, "" when absent.
func ethernetAddress(v Value) string {
	s := v.Scalar()
	mac, err := net.ParseMAC(s)
	switch {
	case s == "":
	case err == nil && len(mac) == 20 && strings.Count(s, ":") == 19:
		v.Unsupported("an InfiniBand address %s", unsupported)
	case err != nil || len(mac) != 6 || strings.Count(s, ":") != 5:
		v.Invalid("is no MAC address like 02:00:00:00:00:01")
	default:
		return mac.String()
	}
	return ""
}

func readActivation(v Value) activation {
	return activation(v.Enum(string(activateManual), string(activateOff)))
}

func nameservers(l *link, v Value) {
	m := v.Mapping(nameserverKeys)
	for _, item := range m.Get("addresses").Sequence() {
		a, err := netip.ParseAddr(item.Scalar())
		if err != nil || a.IsUnspecified() {
			item.Invalid("is no IP address")
			continue
		}
		if l.dns.servers = appendNew(l.dns.servers, a); len(l.dns.servers) > maxServers {
			item.Unsupported("is one too many: at most %d", maxServers)
			break
		}
	}
	for _, item := range m.Get("search").Sequence() {
		s := strings.TrimSuffix(item.Scalar(), ".")
		if !validDomain(s) {
			item.Invalid("is no domain name")
			continue
		}
		if l.dns.search = appendNew(l.dns.search, s); len(l.dns.search) > maxSearch {
			item.Unsupported("is one too many: at most %d", maxSearch)
			break
		}
	}
}

// validDomain keeps what would break resolv.conf out of it; 253 is the longest
// DNS name (RFC 1035, section 2.3.4).
func validDomain(s string) bool {
	return s != "" && len(s) <= 253 &&
		!strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) })
}
