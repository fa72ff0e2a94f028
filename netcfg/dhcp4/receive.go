package dhcp4

import (
	"fmt"
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
	m.offer, m.holder = offer, nil
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
	switch m.state {
	case Requesting:
		m.offer = got
		return m.check(now)
	case Rebooting: // the link may be another one
		return append(m.use(now, got), m.probe(now, got)...)
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
	case m.asks() && r.server == m.lease.Server:
		m.lose(now, why+m.lease.Address.Addr().String())
	case m.state == Rebooting:
		m.foreign = true
	}
}
