package dhcp4

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// Duplicate detection. RFC 5227 probes for 4 to 7 s before an address is used,
// which a boot cannot spend, and many clients do not probe at all. Here the
// first probe goes out with the request: a neighbour has answered before the
// server has, or is given answerTime. Then the address is used, and probed for
// as RFC 5227 does meanwhile; who answers late still has it declined.
const (
	// answerTime is ten times what a neighbour on a wired link takes.
	answerTime = 20 * time.Millisecond

	probes       = 3           // PROBE_NUM, the one before the use included
	probeSpacing = time.Second // PROBE_MIN; also the wait after the last
)

func (m *Machine) probe(now time.Duration, l *Lease) []Action {
	m.probed = now
	return []Action{Probe{l.Address.Addr()}}
}

// check waits for the answers to the first probe.
func (m *Machine) check(now time.Duration) []Action {
	if m.holder != nil {
		return m.decline(now, m.offer, *m.holder)
	}
	m.enter(Checking, m.probed+answerTime)
	return m.Tick(now)
}

// use begins to use a lease that is still to be watched.
func (m *Machine) use(now time.Duration, l *Lease) []Action {
	m.hold(l)
	m.enter(Watching, now+probeSpacing)
	return nil
}

// watch probes for an address in use, until there were enough of them.
func (m *Machine) watch(now time.Duration) []Action {
	if m.tries++; m.tries < probes {
		m.next = now + probeSpacing
		return m.probe(now, m.lease)
	}
	m.hold(m.lease)
	return append([]Action{Announce{m.lease.Address.Addr()}}, m.Tick(now)...)
}

// Heard takes an ARP packet of another machine: who, which address it says it
// has (0.0.0.0 for none), and which it asks for.
func (m *Machine) Heard(now time.Duration, mac [6]byte, sender, target netip.Addr) []Action {
	l := m.offer
	if m.state == Watching {
		l = m.lease
	} else if m.state != Requesting && m.state != Checking {
		return nil
	}
	a := l.Address.Addr()
	// One who probes as we do is about to have it. Once it is in use the kernel
	// answers him; switches that keep track of hosts ask so, too.
	has := sender == a || m.state != Watching && sender.IsUnspecified() && target == a
	switch {
	case !has || m.cfg.ours(mac):
		return nil
	case m.state == Requesting: // there is nothing to decline yet
		m.holder = &mac
		return nil
	}
	return m.decline(now, l, mac)
}

// ours reports whether the MAC is of this machine: the kernel answers for an
// address in use on whatever other port is in the same network.
func (c *Config) ours(mac [6]byte) bool { return mac == c.MAC || c.Ours != nil && c.Ours(mac) }

// decline gives a lease back that somebody else uses.
func (m *Machine) decline(now time.Duration, l *Lease, mac [6]byte) []Action {
	a, who := l.Address.Addr(), net.HardwareAddr(mac[:]).String()
	d := m.message(dhcpv4.MessageTypeDecline, now)
	d.NumSeconds = 0
	d.UpdateOption(dhcpv4.OptRequestedIPAddress(netIP(a)))
	d.UpdateOption(dhcpv4.OptServerIdentifier(netIP(l.Server)))
	d.UpdateOption(dhcpv4.OptMessage("address in use by " + who))
	m.refused++ // the pause is RFC 2131's also for the first time
	m.lose(now, fmt.Sprintf("%s of %s is in use by %s", a, l.Server, who))
	return []Action{Send{Message: d, From: netip.IPv4Unspecified()}}
}
