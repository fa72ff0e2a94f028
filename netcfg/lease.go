package netcfg

import (
	"math"
	"net/netip"
	"slices"
	"strings"
	"time"
)

// lease is what a DHCP server of either version gave an interface. Times are
// since the machine's start.
type lease struct {
	server    string
	addresses []leasedAddress
	routes    []Route // without metric and source
	dns, ntp  []netip.Addr
	search    []string
	hostname  string
	mtu       int // bytes, 0 for none
	renew     time.Duration
	expire    time.Duration // of its last address; noEnd for a lease without
}

type leasedAddress struct {
	netip.Prefix
	preferred, valid time.Duration // until when
}

// noEnd is the time that never comes.
const noEnd = time.Duration(math.MaxInt64)

// tenant is an interface that wants a lease of one family, and what it has.
type tenant struct {
	link   string // id
	name   string // of the interface
	six    bool
	maxMTU int // bytes, what the interface can take; 0 when not known
	clientStatus
}

// leaseWait is why there is no lease; its zero value when nothing is asked for.
type leaseWait struct {
	reason, detail string
	soon           bool // asked for a few seconds ago only
}

func (w leaseWait) text() string {
	if w.detail == "" {
		return w.reason
	}
	return w.reason + ", " + w.detail
}

// dhcp is what a lease of a version is used for, nil when none is wanted.
func (l *link) dhcp(six bool) *dhcpWish {
	if six {
		return l.dhcp6
	}
	return l.dhcp4
}

// wantsLeases reports whether anything in the document asks for DHCP.
func (c *Config) wantsLeases() bool {
	return slices.ContainsFunc(c.links, func(l link) bool { return l.dhcp4 != nil || l.dhcp6 != nil })
}

// The metric of a lease's routes, as netplan writes it for networkd.
const metricDHCP = 100

// withLeases is the wish together with what leases add to it now: it is pure,
// and with the same lease a moment later yields the same but for lifetimes.
// Where document and lease contradict each other, the document is right. An
// entry of the document that means several interfaces becomes one for each,
// because each has a lease of its own.
func (c *Config) withLeases(tenants []tenant, now time.Duration) *Config {
	if len(tenants) == 0 {
		return c
	}
	of := map[string][]tenant{}
	for _, t := range tenants {
		of[t.link] = append(of[t.link], t)
	}
	m := merger{now: now, fixed: map[netip.Addr]bool{}, routes: map[routeKey]bool{}, ahead: map[int]int{}, least: map[string]int{}}
	out := *c
	out.links = nil
	for _, l := range c.links {
		m.note(&l)
		out.links = append(out.links, l.each(of[l.id])...)
	}
	for i := range out.links {
		l := &out.links[i]
		for _, t := range of[l.id] {
			m.merge(l, t)
		}
		for _, t := range of[l.leaseOf] {
			if t.name == l.name {
				m.merge(l, t)
			}
		}
	}
	return &out
}

// each is the link for each of the interfaces that it means.
func (l link) each(tenants []tenant) []link {
	var names []string
	for _, t := range tenants {
		names = appendNew(names, t.name)
	}
	if len(names) < 2 {
		return []link{l}
	}
	var out []link
	for _, name := range names {
		one := l
		// No id of a document has both: an interface's name has no slash.
		one.id, one.leaseOf, one.name, one.match = l.id+"/"+name, l.id, name, nil
		out = append(out, one)
	}
	return out
}

// merger remembers what is given already, so that nothing is given twice: two
// links with the same route would take it from each other for ever.
type merger struct {
	now    time.Duration
	fixed  map[netip.Addr]bool
	routes map[routeKey]bool
	ahead  map[int]int    // by metric, the tenants that have it already
	least  map[string]int // by link, the largest MTU that its vlans want
}

// note takes down what the document says.
func (m *merger) note(l *link) {
	for _, a := range l.addresses {
		m.fixed[a.Addr()] = true
	}
	for _, r := range l.routes {
		m.routes[r.key()] = true
	}
	if l.kind == kindVLAN {
		m.least[l.vlan.parent] = max(m.least[l.vlan.parent], l.mtu)
	}
}

func (m *merger) merge(l *link, t tenant) {
	o := l.dhcp(t.six)
	metric := 0
	if o.useRoutes && !t.six { // those of IPv6 come from routers
		metric = m.metric(o)
	}
	if t.lease == nil {
		if t.waiting != (leaseWait{}) {
			l.leaseWaits = append(slices.Clone(l.leaseWaits), t.wait())
		}
		return
	}
	l.addresses = slices.Clone(l.addresses)
	for _, a := range t.lease.addresses {
		life := lifetime{secondsLeft(a.preferred, m.now), secondsLeft(a.valid, m.now)}
		// Its last second is not worth a write: the kernel drops an address some
		// milliseconds early (ADDRCONF_TIMER_FUZZ_MINUS, net/ipv6/addrconf.c).
		if life.valid > 1 && !m.fixed[a.Addr()] {
			m.fixed[a.Addr()] = true
			l.addresses = append(l.addresses, address{Prefix: a.Prefix, lifetime: life})
		}
	}
	if o.useRoutes {
		m.addRoutes(l, t.lease, metric)
	}
	if o.useDNS {
		l.dns.servers = append(slices.Clone(l.dns.servers), t.lease.dns...)
	}
	if o.useDomains {
		l.dns.search = append(slices.Clone(l.dns.search), t.lease.search...)
	}
	if o.useMTU && l.mtu == 0 && m.canMTU(l, t) {
		l.mtu = t.lease.mtu
	}
}

// secondsLeft is the time until then as the kernel counts, rounded up.
func secondsLeft(then, now time.Duration) uint32 {
	if then == noEnd {
		return infinity
	}
	left := max(then-now+time.Second-1, 0) / time.Second
	return uint32(min(left, infinity-1))
}

// metric is that of a tenant's routes: the document's, or the next one for each
// interface before it that has the same. Those without a lease count too, so
// that no route moves when another interface loses its lease or gets one.
func (m *merger) metric(o *dhcpWish) int {
	metric := o.metric
	if metric < 0 {
		metric = metricDHCP
	}
	m.ahead[metric]++
	return metric + m.ahead[metric] - 1
}

// addRoutes gives each route its source and a metric that is free.
func (m *merger) addRoutes(l *link, from *lease, metric int) {
	l.routes = slices.Clone(l.routes)
	for _, r := range from.routes {
		if r.Via.IsValid() && len(from.addresses) > 0 {
			r.From = from.addresses[0].Addr()
		}
		for r.Metric = metric; m.routes[r.key()]; r.Metric++ {
		}
		m.routes[r.key()] = true
		l.routes = append(l.routes, r)
	}
}

// canMTU refuses what would take IPv6 from the link (RFC 8200, section 5), the
// least that IPv4 hosts must take (RFC 791), what the interface or the one
// below it cannot carry, and less than the vlans on it want.
func (m *merger) canMTU(l *link, t tenant) bool {
	least := 576
	if l.linkLocal || l.wantsIPv6() {
		least = 1280
	}
	return t.lease.mtu >= max(least, m.least[l.id]) && (t.maxMTU == 0 || t.lease.mtu <= t.maxMTU)
}

// linkLeaseWait is a wait as the planner reports it.
type linkLeaseWait struct {
	leaseWait
	family string // "dhcp4", as in optional-addresses
}

func (t tenant) wait() linkLeaseWait {
	w := linkLeaseWait{t.waiting, "dhcp4"}
	version := "DHCPv4: "
	if t.six {
		w.family, version = "dhcp6", "DHCPv6: "
	}
	w.reason = version + w.reason
	return w
}

// leases reports the leases that the link still waits for.
func (p *planner) leases(l *link) {
	for _, w := range l.leaseWaits {
		kind := waitLease
		if w.soon {
			kind = waitLeaseSoon
		}
		p.waitFor(l, kind, Wait{
			Reason: w.reason, Detail: w.detail,
			Optional: slices.Contains(l.optionalAddresses, w.family),
		})
	}
}

// addressText is the addresses for a log.
func (l *lease) addressText() string {
	var out []string
	for _, a := range l.addresses {
		out = append(out, a.Prefix.String())
	}
	return strings.Join(out, " ")
}
