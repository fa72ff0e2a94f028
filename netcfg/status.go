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
}

// Ready reports whether a node can reach others: it has an address that works.
func (s Status) Ready() bool { return len(s.Addresses) > 0 }

// Wait is something that is not there yet and that no write of ours can bring.
type Wait struct {
	Link     string // id in the document
	Reason   string // "no interface with MAC 02:00:00:00:00:01"
	Optional bool   // the document says that nobody needs to wait for it
	Passing  bool   // ends by itself within seconds: a duplicate address check
}

// String is `waiting for eth1: no interface with MAC ...`.
func (w Wait) String() string { return "waiting for " + w.Link + ": " + w.Reason }

// LinkStatus compares one wanted link with what is there.
type LinkStatus struct {
	ID, Name, Kind, MAC string // Name is "" while the interface is missing
	Mode                string // of a bond
	Up, Carrier         bool
	MTU                 int // bytes
	Addresses           []AddressStatus
	Ports               []PortStatus // of a bond
	Problem             string       // one sentence, "" when all is well
}

// AddressStatus is a wanted address. State is "ok", "tentative", "dadfailed",
// "deprecated" or "missing".
type AddressStatus struct {
	Prefix netip.Prefix
	State  string
}

// PortStatus is a wanted port of a bond.
type PortStatus struct {
	ID, Name string // Name is "" while the interface is missing
	Enslaved bool
	Carrier  bool
	Active   bool // carries the bond's traffic
}

// statusOf describes have in the terms of want. It is pure.
func statusOf(want *Config, have State, waits []wait) Status {
	p := newPlanner(want, have)
	p.bindNICs()
	s := Status{Waits: plainWaits(waits)}
	why := reasons(waits)
	for i := range want.links {
		l := &want.links[i]
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
	for _, want := range l.addresses {
		ls.Addresses = append(ls.Addresses, AddressStatus{want.Prefix, p.addressState(d.Index, want.Prefix)})
	}
	if l.kind == kindBond {
		ls.Mode = d.Bond["mode"]
		p.portStatus(l, d, &ls)
	}
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

func (p *planner) addressState(index int, want netip.Prefix) string {
	for _, a := range p.addressesOf[index] {
		if a.Prefix != want {
			continue
		}
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
	return "missing"
}

func (p *planner) portStatus(l *link, d *LinkState, ls *LinkStatus) {
	for _, id := range l.bond.ports {
		port := PortStatus{ID: id}
		if c := p.wanted(id); c != nil {
			port.Name, port.Carrier = c.Name, c.Carrier
			port.Enslaved = c.Master == d.Index
			port.Active = port.Enslaved && c.Port.Active && c.Port.MIIUp
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
		d := p.named(ls.Name)
		if d == nil || !d.Carrier || !d.Up {
			continue
		}
		l := p.ids[ls.ID]
		for _, a := range p.addressesOf[d.Index] {
			if !a.usable() || a.Prefix.Addr().IsLinkLocalUnicast() || a.Prefix.Addr().IsLoopback() {
				continue
			}
			if !l.has(a.Prefix) {
				other = append(other, a.Prefix.Addr())
			}
		}
		for _, as := range ls.Addresses {
			if as.State == "ok" {
				wanted = append(wanted, as.Prefix.Addr())
			}
		}
	}
	slices.SortFunc(other, netip.Addr.Compare)
	return append(wanted, other...)
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
		if a.State == "tentative" && l.Carrier {
			return "", 0
		}
		addresses = append(addresses, a.Prefix.String())
	}
	state := "up"
	if !l.Up || !l.Carrier {
		state = "down"
	}
	line := name + " " + state
	if l.Kind == string(kindBond) {
		active := 0
		for _, port := range l.Ports {
			if port.Enslaved && port.Carrier {
				active++
			}
		}
		line += fmt.Sprintf(": %s, %d of %d ports", l.Mode, active, len(l.Ports))
	}
	if l.Problem != "" {
		return line + "; " + l.Problem + "; set right as soon as it can be", slog.LevelWarn
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
