package netcfg

import (
	"fmt"
	"slices"
	"time"
)

// Finding is something wrong with a link that no write of ours can mend.
type Finding struct {
	Text string // one sentence: "eth1 has no LACP partner"
	// Settles is how long it may last without being wrong: a link that has
	// just come up passes through it.
	Settles time.Duration
}

const (
	// lacpSettles: a partner answers the first LACPDU within a second, and a
	// bond chooses its aggregator 2 s after that (AD_AGGREGATE_WAIT_TIME).
	// Twice that is a switch that does not do LACP, or not yet.
	lacpSettles = 6 * time.Second

	// speedSettles covers the driver's tick, in which it reads a port's speed
	// again after the carrier returned.
	speedSettles = 2 * time.Second

	protoRA = 9 // RTPROT_RA
)

// examine looks at what the kernel says about a link that is as wanted and
// still does not work as it should. The worst comes first.
func (p *planner) examine(l *link, d *LinkState) []Finding {
	var out []Finding
	if l.kind == kindBond {
		out = p.examineBond(l, d)
	}
	if d.Kind == string(kindVLAN) {
		if parent := p.link(d.Parent); parent != nil && d.MTU > parent.MTU {
			out = append(out, Finding{Text: fmt.Sprintf("its MTU %d is above the %d of %s", d.MTU, parent.MTU, parent.Name)})
		}
	}
	if d.Forwarding && d.AcceptRA == acceptRAHost && p.hasAdvertisedRoute(d.Index) {
		out = append(out, Finding{Text: "forwarding is on, so its advertised routes will expire; accept-ra: true keeps them"})
	}
	return out
}

// acceptRAHost takes advertisements only while the link does not forward.
const acceptRAHost = 1

func (p *planner) hasAdvertisedRoute(index int) bool {
	for _, key := range p.keysOf(index) {
		if slices.ContainsFunc(p.routes[key], func(r RouteState) bool { return r.Link == index && r.Proto == protoRA }) {
			return true
		}
	}
	return false
}

func (p *planner) examineBond(l *link, d *LinkState) []Finding {
	var out []Finding
	if d.Bond["miimon"] == "0" && d.Bond["arp_interval"] == "0" {
		out = append(out, Finding{Text: "no link monitoring (mii-monitor-interval 0): a dead port would stay in use"})
	}
	ports := slices.DeleteFunc(p.portsOf(d), func(c *LinkState) bool { return !c.Carrier })
	if len(ports) == 0 {
		return out // each port without carrier is named by itself
	}
	if d.Bond["mode"] == "802.3ad" {
		out = append(out, examineLACP(d, ports)...)
	}
	out = append(out, examineSpeed(d, ports)...)
	for _, c := range ports {
		if c.MTU != d.MTU {
			out = append(out, Finding{Text: fmt.Sprintf("%s has MTU %d, not the bond's %d", c.Name, c.MTU, d.MTU)})
		}
	}
	if !d.Carrier && d.Bond["min_links"] != "0" && d.Bond["min_links"] != "" {
		out = append(out, Finding{fmt.Sprintf("fewer ports work than min-links %s asks for", d.Bond["min_links"]), lacpSettles})
	}
	return out
}

// examineLACP: no partner, two aggregators, or a partner that does not take
// the port in.
func examineLACP(d *LinkState, ports []*LinkState) []Finding {
	var out, later []Finding
	var heard []*LinkState
	for _, c := range ports {
		switch {
		case c.Port.silent():
			out = append(out, Finding{c.Name + " has no LACP partner", lacpSettles})
		case c.Port.Partner&lacpSync == 0 || c.Port.Actor&lacpSync == 0:
			text := c.Name + " is out of sync with its LACP partner"
			if c.Port.PartnerMAC != "" {
				text += " " + c.Port.PartnerMAC
			}
			later = append(later, Finding{text, lacpSettles})
			heard = append(heard, c)
		default:
			heard = append(heard, c)
		}
	}
	if len(out) == len(ports) && len(ports) > 1 {
		out = []Finding{{"no port has an LACP partner: the other side does not do LACP", lacpSettles}}
	}
	if two, ok := twoAggregators(heard); ok {
		out = append(out, Finding{two, lacpSettles})
	} else {
		out = append(out, later...) // being in another aggregator is being out of sync
	}
	return out
}

// silent reports a port that hears nobody. A bond that starts shows the made-up
// partner's state, which has the defaulted bit on our side.
func (s PortState) silent() bool {
	return s.Actor&(lacpDefaulted|lacpExpired) != 0 || s.Actor == 0
}

// twoAggregators words the first two ports whose far ends do not belong to one
// aggregate.
func twoAggregators(ports []*LinkState) (string, bool) {
	for _, c := range ports {
		a, b := ports[0], c
		if a.Port.Aggregator == b.Port.Aggregator {
			continue
		}
		if a.Port.PartnerMAC != b.Port.PartnerMAC {
			return fmt.Sprintf("%s and %s are in two aggregators: their partners are %s and %s, not one switch",
				a.Name, b.Name, a.Port.PartnerMAC, b.Port.PartnerMAC), true
		}
		return fmt.Sprintf("%s and %s are in two aggregators: partner %s has them in different groups or speeds",
			a.Name, b.Name, a.Port.PartnerMAC), true
	}
	return "", false
}

// examineSpeed: ports of one bond should be alike; LACP leaves out a port that
// is not. A speed of 0 is not known, as of virtual NICs.
func examineSpeed(d *LinkState, ports []*LinkState) []Finding {
	var out []Finding
	var first *LinkState
	for _, c := range ports {
		if c.Port.HalfDuplex {
			out = append(out, Finding{c.Name + " runs at half duplex", speedSettles})
		}
		switch {
		case c.Port.Speed == 0:
		case first == nil:
			first = c
		case c.Port.Speed != first.Port.Speed && d.Bond["mode"] != "active-backup":
			out = append(out, Finding{fmt.Sprintf("%s runs at %d Mb/s, %s at %d",
				first.Name, first.Port.Speed, c.Name, c.Port.Speed), speedSettles})
		}
	}
	return out
}

// settling knows since when each finding lasts.
type settling struct {
	since map[string]time.Time // by link and text
	due   time.Time            // when the next finding becomes a problem, zero for none
}

// settle makes the first finding that has lasted too long its link's problem,
// unless the link has a worse one.
func (s *settling) settle(links []LinkStatus, now time.Time) {
	was := s.since
	s.since, s.due = map[string]time.Time{}, time.Time{}
	for i := range links {
		l := &links[i]
		for _, f := range l.Findings {
			key := l.ID + ": " + f.Text
			since, old := was[key]
			if !old {
				since = now
			}
			s.since[key] = since
			switch due := since.Add(f.Settles); {
			case due.After(now):
				l.settling = true
				if s.due.IsZero() || due.Before(s.due) {
					s.due = due
				}
			case l.Problem == "":
				l.Problem = f.Text
			}
		}
	}
}

// lookAtFindings is how often a link with a finding is looked at: LACP's
// changes send no event.
const lookAtFindings = 5 * time.Second

// next is in how long the network should be read again because of a finding.
func (s *settling) next(now time.Time) (time.Duration, bool) {
	if len(s.since) == 0 {
		return 0, false
	}
	if s.due.IsZero() {
		return lookAtFindings, true
	}
	return min(lookAtFindings, max(s.due.Sub(now), 0)), true
}
