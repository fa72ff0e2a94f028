package netcfg

import (
	"math"
	"net/netip"
)

// The kernel's numbers for a route (include/uapi/linux/rtnetlink.h), and the
// metric that it gives to an IPv6 route that has none (IP6_RT_PRIO_USER).
const (
	scopeUniverse = 0
	scopeLink     = 253
	scopeHost     = 254
	metricIPv6    = 1024
)

var routeKeys = Keys{
	Known: []string{"to", "via", "from", "metric", "table", "scope", "on-link", "type"},
	NotYet: []string{"mtu", "congestion-window", "advertised-receive-window",
		"advertised-mss"},
}

func route(v Value) (Route, bool) {
	m := v.Mapping(routeKeys)
	if t := m.Get("type"); t.Set() && t.Scalar() != "unicast" {
		t.Enum("unicast", "anycast", "blackhole", "broadcast", "local", "multicast", "nat", "prohibit", "throw", "unreachable", "xresolve")
		t.Unsupported("is valid netplan that we do not support yet")
	}
	r := Route{Table: mainTable, OnLink: m.Get("on-link").Bool()}
	via := m.Get("via")
	r.Via = ipAddress(via)
	r.From = ipAddress(m.Get("from"))
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
	if from := m.Get("from"); r.From.IsValid() && r.From.Is6() != six {
		from.Invalid("%s and %s are of different families", r.To, r.From)
	}
	if r.OnLink && !r.Via.IsValid() {
		m.Get("on-link").Invalid("needs a gateway in via")
	}
	if six {
		r.Metric = metricIPv6
	}
	if n := m.Get("metric"); n.Set() {
		r.Metric = n.Int(0, math.MaxUint32)
		if six && r.Metric == 0 {
			r.Metric = metricIPv6 // what the kernel makes of 0
		}
	}
	if n := m.Get("table"); n.Set() {
		r.Table = n.Int(1, math.MaxUint32)
	}
	r.Scope = routeScope(m.Get("scope"), r)
	return r, true
}

// routeScope is the wider of what the document says and what the kernel
// insists on. IPv6 has no scopes.
func routeScope(v Value, r Route) int {
	word := v.Enum("global", "link", "host")
	switch {
	case r.To.Addr().Is6():
		return scopeUniverse
	case word == "host":
		return scopeHost
	case word == "link" && r.Via.IsValid():
		v.Invalid("link excludes a gateway in via")
	case word == "" && !r.Via.IsValid(), word == "link":
		return scopeLink
	}
	return scopeUniverse
}

// destination is `default` or a prefix; a bare address is a host route.
func destination(v Value, via netip.Addr) netip.Prefix {
	s := v.Scalar()
	if s == "default" {
		switch {
		case !via.IsValid():
			v.Invalid("default without a gateway in via: say 0.0.0.0/0 or ::/0")
			return netip.Prefix{}
		case via.Is6():
			return netip.PrefixFrom(netip.IPv6Unspecified(), 0)
		}
		return netip.PrefixFrom(netip.IPv4Unspecified(), 0)
	}
	if a, err := netip.ParseAddr(s); err == nil && a.Zone() == "" && !a.Is4In6() {
		return netip.PrefixFrom(a, a.BitLen())
	}
	p, err := netip.ParsePrefix(s)
	if err != nil || p.Addr().Is4In6() {
		v.Invalid("wants default or a network, like 192.0.2.0/24")
		return netip.Prefix{}
	}
	if p != p.Masked() {
		v.Invalid("has bits beyond its prefix length; did you mean %q?", p.Masked())
		return netip.Prefix{}
	}
	return p
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
