package netcfg

import (
	"math"
	"net/netip"
	"slices"
)

// The kernel's numbers for a route (include/uapi/linux/rtnetlink.h), and the
// metric that it gives to an IPv6 route that has none (IP6_RT_PRIO_USER).
const (
	maxUint32     = math.MaxUint32
	scopeUniverse = 0
	scopeLink     = 253
	scopeHost     = 254
	metricIPv6    = 1024
)

// routeType is one of netplan's types of routes: the scope that the kernel asks
// of it (fib_props, net/ipv4/fib_semantics.c), what netplan makes of none, and
// whether it has no next hop, because it ends here.
type routeType struct {
	name        string
	least, none int
	ends        bool
}

var routeTypes = []routeType{
	{"unicast", scopeUniverse, scopeUniverse, false}, // without a gateway: link, see routeScope
	{"blackhole", scopeUniverse, scopeUniverse, true},
	{"prohibit", scopeUniverse, scopeUniverse, true},
	{"unreachable", scopeUniverse, scopeUniverse, true},
	{"throw", scopeUniverse, scopeUniverse, true},
	{"local", scopeHost, scopeHost, false},
	{"anycast", scopeLink, scopeLink, false},
	{"broadcast", scopeLink, scopeLink, false},
	{"multicast", scopeUniverse, scopeLink, false},
}

// route reads one route; ok is false if it has no destination or gateway that
// others could be compared with.
func route(v Value) (r Route, ok bool) {
	m := v.Mapping(routeKeys)
	via, from := m.Get("via"), m.Get("from")
	r = Route{Table: mainTable, OnLink: m.Get("on-link").Bool(), Via: ipAddress(via), From: ipAddress(from)}
	if to := m.Require("to"); to.Set() {
		r.To = destination(to, r.Via)
	}
	if !r.To.IsValid() || via.Set() && !r.Via.IsValid() {
		return r, false
	}
	six := r.To.Addr().Is6()
	if r.Via.IsValid() && r.Via.Is6() != six {
		via.Invalid("%s and %s are of different families", r.To, r.Via)
	}
	if r.From.IsValid() && r.From.Is6() != six {
		from.Invalid("%s and %s are of different families", r.To, r.From)
	}
	if r.OnLink && !r.Via.IsValid() {
		m.Get("on-link").Unsupported("needs a gateway in via")
	}
	r.readNumbers(m, six)
	r.readType(m)
	return r, true
}

func (r *Route) readNumbers(m Mapping, six bool) {
	if six {
		r.Metric = metricIPv6
	}
	if n := m.Get("metric"); n.Set() {
		if r.Metric = n.Int(0, maxUint32); six && r.Metric == 0 {
			r.Metric = metricIPv6 // what the kernel makes of 0
		}
	}
	if n := m.Get("table"); n.Set() {
		r.Table = n.Int(1, maxUint32)
	}
	r.MTU = m.Get("mtu").Int(0, 65535)
	for _, f := range []struct {
		key string
		to  *int
		hi  int
	}{
		{"advertised-mss", &r.AdvertisedMSS, 65535 - 40}, // TCP and IP headers (fib_metrics.c)
		{"congestion-window", &r.CongestionWindow, maxUint32},
		{"advertised-receive-window", &r.AdvertisedReceive, maxUint32},
	} {
		*f.to = m.Get(f.key).Int(0, f.hi)
	}
}

func (r *Route) readType(m Mapping) {
	v, word := m.Get("type"), "unicast"
	names := []string{"nat", "xresolve"}
	for _, t := range routeTypes {
		names = append(names, t.name)
	}
	if v.Set() {
		word = v.Enum(names...)
	}
	if word == "nat" || word == "xresolve" {
		v.Unsupported("%s %s", word, unsupported)
		return
	}
	i := slices.IndexFunc(routeTypes, func(t routeType) bool { return t.name == word })
	if i < 0 {
		return // reported
	}
	t := routeTypes[i]
	if word != "unicast" {
		r.Type = word
	}
	if t.ends && r.Via.IsValid() {
		m.Get("via").Unsupported("has no effect: a route of type %s ends here", word)
	}
	r.Scope = routeScope(m.Get("scope"), *r, t)
}

// routeScope is what the document says, or netplan's default, as far as the
// kernel takes it. IPv6 has no scopes.
func routeScope(v Value, r Route, t routeType) int {
	scopes := map[string]int{"global": scopeUniverse, "link": scopeLink, "host": scopeHost}
	word := v.Enum("global", "link", "host")
	if t.name == "unicast" && !r.Via.IsValid() {
		t.least, t.none = scopeLink, scopeLink
	}
	scope := t.none
	if v.Set() {
		scope = scopes[word]
	}
	switch {
	case word == "global" && t.name == "unicast" && !r.Via.IsValid():
		v.Invalid("global needs a gateway in via")
	case r.To.Addr().Is6():
		return scopeUniverse
	case scope < t.least:
		v.Unsupported("%s is wider than the kernel allows for type %s", word, t.name)
	case scope != scopeUniverse && r.Via.IsValid() && t.name == "unicast":
		v.Unsupported("%s excludes a gateway in via", word)
	}
	return scope
}

// destination is `default` or a network.
func destination(v Value, via netip.Addr) netip.Prefix {
	switch {
	case v.Scalar() != "default":
		return networkPrefix(v)
	case !via.IsValid():
		v.Invalid("default without a gateway in via: say 0.0.0.0/0 or ::/0")
		return netip.Prefix{}
	case via.Is6():
		return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
	}
	return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
}

// networkPrefix is a network; a bare address is one machine. Bits beyond the
// prefix length mean nothing and are dropped, as networkd does: the kernel
// refuses them in a route.
func networkPrefix(v Value) netip.Prefix {
	if !v.Set() {
		return netip.Prefix{}
	}
	s := v.Scalar()
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" && !a.Is4In6() {
		return netip.PrefixFrom(a, a.BitLen())
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		v.Invalid("wants a network, like 192.0.2.0/24")
		return netip.Prefix{}
	}
	return p.Masked()
}

func ipAddress(v Value) netip.Addr {
	if !v.Set() {
		return netip.Addr{}
	}
	a, err := netip.ParseAddr(v.Scalar())
	if err != nil || a.Zone() != "" || a.Is4In6() || a.IsUnspecified() || a.IsMulticast() {
		v.Invalid("wants an IP address of one machine")
		return netip.Addr{}
	}
	return a
}

// gateway is netplan's older way to write a default route.
func gateway(v Value, six bool) (Route, bool) {
	r := Route{Table: mainTable, Via: ipAddress(v)}
	if !r.Via.IsValid() {
		return r, false
	}
	if r.Via.Is6() != six {
		v.Invalid("wants an address of the other family")
		return r, false
	}
	r.To = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	if six {
		r.To = netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		r.Metric = metricIPv6
	}
	return r, true
}
