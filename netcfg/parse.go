package netcfg

import (
	"net"
	"net/netip"
	"path"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// Parse compiles a netplan version 2 document, with or without its `network:`
// wrapper (cloud-init's network-config has none). The error is a Problems with
// everything wrong with it.
func Parse(file string, doc []byte) (*Config, error) {
	d := ReadDocument(file, doc)
	root := d.Root()
	if m := root.Names(); m.Get("network").Set() {
		root = root.Mapping(Keys{Known: []string{"network"}}).Get("network")
	}
	return compile(d, root)
}

// ParseNode compiles the value of `network:` inside another document.
func ParseNode(file string, n *yaml.Node) (*Config, error) {
	d := NodeDocument(file, n)
	root := d.Root()
	root.path = "network"
	return compile(d, root)
}

// The sections of a document, and netplan's keys that have no meaning here yet.
var (
	topKeys = Keys{
		Known: []string{"version", "renderer", "ethernets", "bonds", "vlans", "dummy-devices"},
		NotYet: []string{"bridges", "wifis", "modems", "tunnels", "vrfs", "nm-devices",
			"virtual-ethernets", "openvswitch"},
	}
	commonKeys = Keys{
		Known: []string{"addresses", "routes", "nameservers", "mtu", "macaddress", "optional",
			"accept-ra", "link-local", "dhcp4", "dhcp6", "gateway4", "gateway6", "renderer"},
		NotYet: []string{"dhcp-identifier", "dhcp4-overrides", "dhcp6-overrides", "ipv6-mtu",
			"ipv6-privacy", "ipv6-address-generation", "ipv6-address-token", "optional-addresses",
			"critical", "ignore-carrier", "activation-mode", "routing-policy", "neigh-suppress",
			"ra-overrides", "openvswitch", "networkmanager"},
	}
	ethernetKeys = commonKeys.and(Keys{
		Known: []string{"match", "set-name"},
		NotYet: []string{"wakeonlan", "emit-lldp", "receive-checksum-offload", "transmit-checksum-offload",
			"tcp-segmentation-offload", "tcp6-segmentation-offload", "generic-segmentation-offload",
			"generic-receive-offload", "large-receive-offload", "infiniband-mode", "link", "auth",
			"virtual-function-count", "embedded-switch-mode", "delay-virtual-functions-rebind"},
	})
	bondKeys = commonKeys.and(Keys{Known: []string{"interfaces", "parameters"}})
	vlanKeys = commonKeys.and(Keys{Known: []string{"id", "link"}})
)

func (k Keys) and(more Keys) Keys {
	return Keys{
		Known:  append(append([]string{}, k.Known...), more.Known...),
		NotYet: append(append([]string{}, k.NotYet...), more.NotYet...),
	}
}

// The most of each that still works: the vlans of one link are 4,094, glibc
// reads 3 name servers and 256 bytes of search list, and no switch or kernel
// was tested with 64 ports in a bond. Beyond, the checks would take quadratic time.
const (
	maxLinks   = 8192
	maxPorts   = 64
	maxServers = 16
	maxSearch  = 32
)

// compiler turns a document into a Config; the maps remember the places that
// the checks of the whole document report.
type compiler struct {
	cfg       Config
	where     map[string]Value // of each link
	refs      map[string]Value // where each id was first referred to
	addresses map[netip.Addr]Value
	routes    map[routeKey]Value
}

func compile(d *Document, root Value) (*Config, error) {
	c := &compiler{
		where:     map[string]Value{},
		refs:      map[string]Value{},
		addresses: map[netip.Addr]Value{},
		routes:    map[routeKey]Value{},
	}
	top := root.Mapping(topKeys)
	if v := top.Require("version"); v.Set() {
		v.Int(2, 2)
	}
	renderer(top.Get("renderer"))

	// Parents before children: this order is the planner's.
	ethernets := top.Get("ethernets")
	c.section(ethernets, kindNIC, ethernetKeys)
	c.section(top.Get("dummy-devices"), kindDummy, commonKeys)
	c.section(top.Get("bonds"), kindBond, bondKeys)
	c.section(top.Get("vlans"), kindVLAN, vlanKeys)
	if !ethernets.Set() {
		c.implyNICs()
	}
	c.checkReferences()
	c.checkNames()
	if err := d.Err(); err != nil {
		return nil, err
	}
	return &c.cfg, nil
}

// renderer accepts netplan's networkd, whose meaning of the keys is the one
// that we follow, and refuses NetworkManager's.
func renderer(v Value) {
	if v.Enum("networkd", "NetworkManager") == "NetworkManager" {
		v.Unsupported("is valid netplan that we do not support yet")
	}
}

func (c *compiler) section(v Value, kind deviceKind, keys Keys) {
	for _, e := range v.Names().Entries() {
		m := e.Value.Mapping(keys)
		if first, dup := c.where[e.Key]; dup {
			e.Value.Invalid("is defined twice, first in line %d", first.Line())
			continue
		}
		if len(c.where) == maxLinks {
			e.Value.Invalid("is one too many: at most %d interfaces", maxLinks)
			return
		}
		c.where[e.Key] = e.Value
		l := link{id: e.Key, kind: kind, name: e.Key}
		c.common(&l, m)
		switch kind {
		case kindNIC:
			c.ethernet(&l, m)
		case kindBond:
			c.bond(&l, m)
		case kindVLAN:
			l.vlan.id = m.Require("id").Int(1, 4094)
			l.vlan.parent = c.reference(m.Require("link"))
		}
		if l.name != "" && !validName(l.name) {
			e.Value.Invalid("is no interface name: 1 to 15 bytes without blanks, '/' and ':'")
		}
		c.cfg.links = append(c.cfg.links, l)
	}
}

// validName is dev_valid_name (net/core/dev.c); IFNAMSIZ is 16 with the NUL.
func validName(s string) bool {
	return s != "" && len(s) < 16 && s != "." && s != ".." &&
		!strings.ContainsFunc(s, func(r rune) bool {
			return r == '/' || r == ':' || unicode.IsSpace(r) || !unicode.IsPrint(r)
		})
}

func (c *compiler) ethernet(l *link, m Mapping) {
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
	mm := on.Mapping(Keys{Known: []string{"macaddress", "driver", "name"}})
	l.match.mac = macAddress(mm.Get("macaddress"))
	l.match.name = glob(mm.Get("name"))
	if v := mm.Get("driver"); v.Set() && v.Node().Kind == yaml.SequenceNode {
		for _, item := range v.Sequence() {
			l.match.drivers = append(l.match.drivers, glob(item))
		}
	} else if v.Set() {
		l.match.drivers = []string{glob(v)}
	}
}

func glob(v Value) string {
	s := v.Scalar()
	if _, err := path.Match(s, ""); err != nil {
		v.Invalid("is no shell pattern")
	}
	return s
}

// common reads the keys that every kind of device has.
func (c *compiler) common(l *link, m Mapping) {
	l.optional = m.Get("optional").Bool()
	l.mac = macAddress(m.Get("macaddress"))
	// 68 bytes is IPv4's least MTU (RFC 791); IPv6 wants 1280 (RFC 8200), see addAddress.
	l.mtu = m.Get("mtu").Int(68, 65535)
	if v := m.Get("accept-ra"); v.Set() {
		b := v.Bool()
		l.acceptRA = &b
	}
	l.linkLocal = linkLocal(m.Get("link-local"))
	for _, key := range []string{"dhcp4", "dhcp6"} {
		if v := m.Get(key); v.Bool() {
			v.Unsupported("true is valid netplan that we do not support yet")
		}
	}
	renderer(m.Get("renderer"))
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
	c.nameservers(l, m.Get("nameservers"))
}

// linkLocal is whether the link shall have an IPv6 link-local address.
func linkLocal(v Value) bool {
	if !v.Set() {
		return true
	}
	six := false
	for _, item := range v.Sequence() {
		switch item.Enum("ipv4", "ipv6") {
		case "ipv4":
			item.Unsupported("ipv4 is valid netplan that we do not support yet")
		case "ipv6":
			six = true
		}
	}
	return six
}

func (c *compiler) nameservers(l *link, v Value) {
	m := v.Mapping(Keys{Known: []string{"addresses", "search"}})
	for _, item := range m.Get("addresses").Sequence() {
		a, err := netip.ParseAddr(item.Scalar())
		if err != nil || a.IsUnspecified() {
			item.Invalid("is no IP address")
			continue
		}
		if l.dns.servers = appendNew(l.dns.servers, a); len(l.dns.servers) > maxServers {
			item.Invalid("is one too many: at most %d", maxServers)
			break
		}
	}
	for _, item := range m.Get("search").Sequence() {
		s := strings.TrimSuffix(item.Scalar(), ".")
		// 253 is the longest DNS name (RFC 1035, section 2.3.4).
		if s == "" || len(s) > 253 || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }) {
			item.Invalid("is no domain name")
			continue
		}
		if l.dns.search = appendNew(l.dns.search, s); len(l.dns.search) > maxSearch {
			item.Invalid("is one too many: at most %d", maxSearch)
			break
		}
	}
}

func appendNew[T comparable](list []T, v T) []T {
	for _, have := range list {
		if have == v {
			return list
		}
	}
	return append(list, v)
}

// macAddress is a unicast Ethernet address in lower case, "" when absent.
func macAddress(v Value) string {
	s := v.Scalar()
	switch s {
	case "":
		return ""
	case "permanent", "random", "stable", "preserve":
		v.Unsupported("%s is valid netplan that we do not support yet", s)
		return ""
	}
	mac, err := net.ParseMAC(s)
	switch {
	case err != nil || len(mac) != 6 || strings.Count(s, ":") != 5:
		v.Invalid("is no MAC address like 02:00:00:00:00:01")
	case mac[0]&1 != 0 || mac.String() == "00:00:00:00:00:00":
		v.Invalid("wants the address of one station, not a group's or zero")
	default:
		return mac.String()
	}
	return ""
}

// readAddress is an address with its prefix length.
func readAddress(v Value) netip.Prefix {
	if n := v.Node(); n.Kind == yaml.MappingNode && len(n.Content) == 2 {
		v.Names().Entries()[0].Value.Mapping(Keys{NotYet: []string{"label", "lifetime"}})
		return netip.Prefix{}
	}
	s := v.Scalar()
	p, err := netip.ParsePrefix(s)
	if err != nil {
		v.Invalid("wants an address with its prefix length, like 192.0.2.1/24 or 2001:db8::1/64")
		return netip.Prefix{}
	}
	if a := p.Addr(); a.IsUnspecified() || a.IsMulticast() || a.Is4In6() {
		v.Invalid("%s is no address that an interface can have", a)
		return netip.Prefix{}
	}
	return p
}

// implyNICs defines, in a document without an ethernets section, the NICs that
// it merely mentions: `bonds: {bond0: {interfaces: [eth0, eth1]}}` is complete.
func (c *compiler) implyNICs() {
	var nics []link
	mention := func(id string) {
		if _, ok := c.where[id]; ok || id == "" {
			return
		}
		if !validName(id) {
			c.refs[id].Invalid("%q is no interface name", id)
		}
		c.where[id] = c.refs[id]
		nics = append(nics, link{id: id, name: id, linkLocal: true})
	}
	for _, l := range c.cfg.links {
		for _, port := range l.bond.ports {
			mention(port)
		}
		mention(l.vlan.parent)
	}
	c.cfg.links = append(nics, c.cfg.links...)
}

// addAddress gives the link an address, unless another has it already or the
// link's MTU cannot carry it.
func (c *compiler) addAddress(l *link, v Value) {
	p := readAddress(v)
	if !p.IsValid() {
		return
	}
	if first, dup := c.addresses[p.Addr()]; dup {
		v.Invalid("duplicate address %s, first given in line %d", p.Addr(), first.Line())
		return
	}
	if p.Addr().Is6() && l.mtu != 0 && l.mtu < 1280 {
		v.Invalid("needs an mtu of at least 1280, not %d", l.mtu)
	}
	c.addresses[p.Addr()] = v
	l.addresses = append(l.addresses, address{Prefix: p, lifetime: forever})
}

// routeKey is what we keep at most one route for, because IPv4 has one place
// for it.
type routeKey struct {
	to            netip.Prefix
	table, metric int
}

func (r Route) key() routeKey { return routeKey{r.To, r.Table, r.Metric} }

func (c *compiler) addRoute(l *link, v Value, r Route, ok bool) {
	if !ok {
		return
	}
	if first, dup := c.routes[r.key()]; dup {
		v.Invalid("is a second route to %s with metric %d in table %d, the first is in line %d",
			r.To, r.Metric, r.Table, first.Line())
		return
	}
	c.routes[r.key()] = v
	l.routes = append(l.routes, r)
}

// reference reads the id of another link.
func (c *compiler) reference(v Value) string {
	id := v.Scalar()
	if _, ok := c.refs[id]; !ok {
		c.refs[id] = v
	}
	return id
}
