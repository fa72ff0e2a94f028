package netcfg

import (
	"cmp"
	"fmt"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
)

// Status is the network as an operator wants to know it.
type Status struct {
	Converged bool         // the last plan was empty
	Failed    string       // the operation that the kernel refused, and why
	Waits     []Wait       // what the wish still waits for, in document order
	Links     []LinkStatus // wanted links but for ports of bonds, in document order
	Addresses []netip.Addr // a socket can use them now, most preferred first
	Leases    []LeaseStatus
}

// Ready reports whether a node can reach others: it has an address that works.
func (s Status) Ready() bool { return len(s.Addresses) > 0 }

// Wait is something that is not there yet and that no write of ours can bring.
type Wait struct {
	Link     string // id in the document
	Reason   string // "no interface with MAC 02:00:00:00:00:01"
	Detail   string // what changes while the reason stays: "attempt 4 in 31s"; may be ""
	Optional bool   // the document says that nobody needs to wait for it
	Passing  bool   // ends by itself within seconds: a duplicate address check
}

// String is `waiting for eth1: no interface with MAC ...`.
func (w Wait) String() string { return "waiting for " + w.Text() }

// Text is `eth1: no interface with MAC ...`.
func (w Wait) Text() string {
	if w.Detail != "" {
		return w.Link + ": " + w.Reason + ", " + w.Detail
	}
	return w.Link + ": " + w.Reason
}

// LinkStatus compares one wanted link with what is there.
type LinkStatus struct {
	ID, Name, Kind, MAC string // Name is "" while the interface is missing
	Mode                string // of a bond
	Up, Carrier         bool
	MTU                 int             // bytes
	Addresses           []AddressStatus // the wanted ones, then what else it has
	Ports               []PortStatus    // of a bond
	LACP                LACPState       // of an 802.3ad bond
	Problem             string          // one sentence, "" when all is well
	Findings            []Finding       // of the link and its ports, the worst first

	settling bool // a finding may yet go by itself
}

// AddressStatus is an address. State is "ok", "tentative", "dadfailed",
// "deprecated" or "missing".
type AddressStatus struct {
	Prefix netip.Prefix
	State  string
	Wanted bool   // false: from router advertisements, the kernel or somebody else
	Holder string // of a failed one, the MAC of who has it, "" when not known

	temporary bool // of IPv6 privacy
}

// PortStatus is a wanted port of a bond.
type PortStatus struct {
	ID, Name string // Name is "" while the interface is missing
	Enslaved bool
	Carrier  bool
	Working  bool // carries the bond's traffic
	PortState
}

// statusOf describes have in the terms of want. It is pure.
func statusOf(want *Config, have State, waits []wait) Status {
	p := newPlanner(want, have)
	p.bindNICs()
	return p.status(waits)
}

// status is of a planner on whose board nothing was played.
func (p *planner) status(waits []wait) Status {
	s := Status{Waits: plainWaits(waits)}
	why := reasons(waits)
	for i := range p.want.links {
		l := &p.want.links[i]
		if p.masters[l.id] == nil {
			s.Links = append(s.Links, p.linkStatus(l, why))
		}
	}
	s.Addresses = p.usableAddresses(s.Links)
	return s
}

func (p *planner) linkStatus(l *link, why map[string]string) LinkStatus {
	ls := LinkStatus{ID: l.id, Kind: cmp.Or(string(l.kind), "ethernet")}
	d := p.wanted(l.id)
	if d == nil {
		ls.Problem = cmp.Or(why[l.id], "is not there yet")
		return ls
	}
	ls.Name, ls.MAC, ls.Up, ls.Carrier, ls.MTU = d.Name, d.MAC, d.Up, d.Carrier, d.MTU
	p.addressStatus(l, d, &ls)
	if l.kind == kindBond {
		ls.Mode, ls.LACP = d.Bond["mode"], d.LACP
		p.portStatus(l, d, &ls)
	}
	ls.Findings = p.examine(l, d)
	ls.Problem = cmp.Or(why[l.id], portProblem(ls, why))
	return ls
}

// reasons is, by link, the first wait that is not merely a matter of seconds.
func reasons(waits []wait) map[string]string {
	out := map[string]string{}
	for _, w := range waits {
		if _, dup := out[w.Link]; !dup && !w.passing() {
			out[w.Link] = w.Reason
		}
	}
	return out
}

// addressStatus lists the wanted addresses in the document's order, then the
// others in the kernel's.
func (p *planner) addressStatus(l *link, d *LinkState, ls *LinkStatus) {
	for _, want := range l.addresses {
		ls.Addresses = append(ls.Addresses, AddressStatus{Prefix: want.Prefix, State: "missing", Wanted: true})
	}
	for _, a := range p.addressesOf[d.Index] {
		i := slices.IndexFunc(l.addresses, func(w address) bool { return w.Prefix == a.Prefix })
		if i < 0 {
			i = len(ls.Addresses)
			ls.Addresses = append(ls.Addresses, AddressStatus{Prefix: a.Prefix})
		}
		ls.Addresses[i].State, ls.Addresses[i].Holder = a.word(), a.Holder
		ls.Addresses[i].temporary = a.Temporary
	}
}

func (a AddressState) word() string {
	switch {
	case a.DADFailed:
		return "dadfailed"
	case a.Tentative:
		return "tentative"
	case a.Deprecated:
		return "deprecated"
	}
	return "ok"
}

func (p *planner) portStatus(l *link, d *LinkState, ls *LinkStatus) {
	for _, id := range l.bond.ports {
		port := PortStatus{ID: id}
		if c := p.wanted(id); c != nil {
			port.Name, port.Carrier = c.Name, c.Carrier
			port.Enslaved = c.Master == d.Index
			port.Working = port.Enslaved && c.Port.Active && c.Port.MIIUp
			port.PortState = c.Port
		}
		ls.Ports = append(ls.Ports, port)
	}
}

// portProblem is a sentence for the first port that does not carry traffic
// though it should.
func portProblem(ls LinkStatus, why map[string]string) string {
	for _, port := range ls.Ports {
		switch {
		case port.Name == "":
			return port.ID + ": " + cmp.Or(why[port.ID], "no such interface")
		case !port.Enslaved:
			return port.Name + " is not a port yet"
		case !port.Carrier:
			return port.Name + " has no carrier"
		}
	}
	return ""
}

// usableAddresses prefers the document's addresses in its order, then what
// else its links have: IPv4 before IPv6, by number. An address of a link
// without carrier, a temporary or a link-local one is of no use to others.
func (p *planner) usableAddresses(links []LinkStatus) []netip.Addr {
	var wanted, other []netip.Addr
	for _, ls := range links {
		if !ls.Carrier || !ls.Up {
			continue
		}
		for _, a := range ls.Addresses {
			switch addr := a.Prefix.Addr(); {
			case a.State != "ok":
			case a.Wanted:
				wanted = append(wanted, addr)
			case a.public():
				other = append(other, addr)
			}
		}
	}
	slices.SortFunc(other, netip.Addr.Compare)
	return append(wanted, other...)
}

// public reports whether an address that the document does not have is of use
// to others.
func (a AddressStatus) public() bool {
	addr := a.Prefix.Addr()
	return !a.temporary && !addr.IsLinkLocalUnicast() && !addr.IsLoopback()
}

// inUse counts the ports that a bond could send on: a backup port is one, a
// port that LACP leaves out is none.
func (l LinkStatus) inUse() (n int) {
	for _, port := range l.Ports {
		if port.Enslaved && port.Carrier && (port.Working || l.Mode != "802.3ad") {
			n++
		}
	}
	return n
}

// line is the link in one line of a log, "" while it is only a matter of
// seconds.
func (l LinkStatus) line() (string, slog.Level) {
	name := cmp.Or(l.Name, l.ID)
	if l.Name == "" {
		return "waiting for " + name + ": " + l.Problem + "; set up when it appears", slog.LevelWarn
	}
	var addresses []string
	for _, a := range l.Addresses {
		switch {
		case !a.Wanted && !a.public():
			continue
		case a.State == "tentative" && l.Carrier:
			return "", 0
		}
		addresses = append(addresses, a.Prefix.String())
	}
	if l.settling && l.Problem == "" {
		return "", 0
	}
	state := "up"
	if !l.Up || !l.Carrier {
		state = "down"
	}
	line := name + " " + state
	if l.Kind == string(kindBond) {
		line += fmt.Sprintf(": %s, %d of %d ports", l.Mode, l.inUse(), len(l.Ports))
		if l.LACP.Partner != "" {
			line += ", partner " + l.LACP.Partner
		}
	}
	if l.Problem != "" {
		return line + "; " + l.Problem + "; watching it", slog.LevelWarn
	}
	// Three addresses are what one node has; more are a count.
	if n := len(addresses); n > 3 {
		addresses = append(addresses[:3], fmt.Sprintf("and %d more", n-3))
	}
	if len(addresses) > 0 {
		line += ", " + strings.Join(addresses, " ")
	}
	return line, slog.LevelInfo
}
