package dhcp4

import (
	"fmt"
	"net"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// Receive takes a message that came to the client's port. What is malformed or
// not for us is counted and changes nothing.
func (m *Machine) Receive(now time.Duration, message []byte) []Action {
	m.expire(now)
	r, err := parse(message)
	if err != nil {
		m.dropped++
		return nil
	}
	if m.state == Off || !m.isOurs(r) {
		return nil // other clients' messages are no fault
	}
	switch r.kind {
	case dhcpv4.MessageTypeOffer:
		return m.offered(now, r)
	case dhcpv4.MessageTypeAck:
		return m.acknowledged(now, r)
	}
	m.refusedBy(now, r)
	return nil
}

// offered takes the first offer that can be used.
func (m *Machine) offered(now time.Duration, r *reply) []Action {
	if m.state != Selecting {
		return nil
	}
	offer, err := leaseOf(r, now)
	if err != nil {
		m.unusable(r, err)
		return nil
	}
	m.offer = offer
	m.enter(Requesting, now)
	return m.Tick(now)
}

func (m *Machine) unusable(r *reply, err error) {
	m.dropped++
	m.problem = fmt.Sprintf("the offer of %s cannot be used: %v", r.server, err)
}

// acknowledged begins to use a lease, or to use it longer.
func (m *Machine) acknowledged(now time.Duration, r *reply) []Action {
	asked := m.lease
	switch m.state {
	case Requesting:
		if asked = m.offer; r.server != asked.Server {
			return nil // somebody who did not notice that we chose another
		}
	case Renewing:
		if r.server != asked.Server {
			return nil
		}
	case Rebinding, Rebooting: // whoever answers
	default:
		return nil
	}
	got, err := leaseOf(r, m.sent)
	if err == nil && !got.sameAddress(asked) {
		err = fmt.Errorf("%s was asked for", asked.Address.Addr())
	}
	if err != nil {
		m.unusable(r, err)
		return nil
	}
	if m.state == Requesting {
		m.offer = got
		m.enter(Checking, now)
		return m.Tick(now)
	}
	m.hold(got)
	return nil
}

// refusedBy ends what a NAK refuses. One of a server that we do not deal with
// means nothing, or another network: after link-up that is believed if nobody
// says otherwise before the next try.
func (m *Machine) refusedBy(now time.Duration, r *reply) {
	why := r.server.String() + " refused "
	switch {
	case m.state == Requesting && r.server == m.offer.Server:
		m.problem = why + m.offer.Address.Addr().String()
		m.refuse(now)
	case m.holds() && m.state != Bound && r.server == m.lease.Server:
		m.lose(now, why+m.lease.Address.Addr().String())
	case m.state == Rebooting:
		m.foreign = true
	}
}

// Heard takes an ARP packet of another machine: who, which address it says it
// has (0.0.0.0 for none), and which it asks for.
func (m *Machine) Heard(now time.Duration, mac [6]byte, sender, target netip.Addr) []Action {
	if m.state != Checking || mac == m.cfg.MAC {
		return nil
	}
	a := m.offer.Address.Addr()
	if sender != a && (!sender.IsUnspecified() || target != a) {
		return nil
	}
	d := m.message(dhcpv4.MessageTypeDecline, now)
	d.NumSeconds = 0
	d.UpdateOption(dhcpv4.OptRequestedIPAddress(netIP(a)))
	d.UpdateOption(dhcpv4.OptServerIdentifier(netIP(m.offer.Server)))
	d.UpdateOption(dhcpv4.OptMessage("address in use by " + net.HardwareAddr(mac[:]).String()))
	m.problem = fmt.Sprintf("%s of %s is in use by %s", a, m.offer.Server, net.HardwareAddr(mac[:]))
	m.refused++ // the pause is RFC 2131's also for the first time
	m.refuse(now)
	return []Action{Send{Message: d, From: netip.IPv4Unspecified()}}
}
