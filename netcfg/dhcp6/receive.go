package dhcp6

import (
	"bytes"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
)

// What is read of a message, in bytes. The port hears everybody, and names may
// point to names (RFC 1035, section 4.1.4): the library's reader of them
// allocates the cube of an option's length, gigabytes for the longest.
const (
	maxMessage = 2048 // more than fits an Ethernet frame
	maxOption  = 512  // 16 addresses, a long search list
)

// Receive takes a message that came to the client's port from an address. What
// is malformed or not for us is counted and changes nothing. Most of what is
// not for us is told by its transaction, before it is read.
func (m *Machine) Receive(now time.Duration, message []byte, from netip.Addr) []*dhcpv6.Message {
	m.expire(now)
	if m.tries == 0 || len(message) < 4 || dhcpv6.TransactionID(message[1:4]) != m.xid {
		return nil // other clients' messages, and late ones
	}
	d, err := parse(message)
	if err != nil || d.Options.ServerID() == nil || d.Options.ClientID() == nil {
		m.dropped++
		return nil
	}
	if !bytes.Equal(d.Options.ClientID().ToBytes(), m.cfg.DUID) {
		return nil // another client's with the same transaction
	}
	l, err := leaseOf(d, from, m.cfg.IAID, m.sent)
	switch d.MessageType {
	case dhcpv6.MessageTypeAdvertise:
		return m.advertised(now, d, l, err)
	case dhcpv6.MessageTypeReply:
		return m.replied(now, d, l, err)
	}
	return nil
}

// parse reads a message of 4 bytes or more. An option that is too long becomes
// one of code 0, which is none's.
func parse(message []byte) (*dhcpv6.Message, error) {
	if len(message) > maxMessage {
		return nil, fmt.Errorf("longer than %d bytes", maxMessage)
	}
	d := &dhcpv6.Message{MessageType: dhcpv6.MessageType(message[0]), TransactionID: dhcpv6.TransactionID(message[1:4])}
	return d, d.Options.FromBytesWithParser(message[4:], func(code dhcpv6.OptionCode, data []byte) (dhcpv6.Option, error) {
		if len(data) > maxOption {
			return &dhcpv6.OptionGeneric{}, nil
		}
		return dhcpv6.ParseOption(code, data)
	})
}

// advertised keeps the best offer until the first timeout is over; the highest
// preference wins at once (RFC 8415, section 18.2.1).
func (m *Machine) advertised(now time.Duration, d *dhcpv6.Message, l *Lease, err error) []*dhcpv6.Message {
	if m.state != Soliciting {
		return nil
	}
	if err == nil && l.unassigned {
		err = errNoAddress
	}
	if err != nil {
		m.refused(err)
		return nil
	}
	favour := int(d.Options.Preference())
	if m.offer == nil || favour > m.favour {
		m.offer, m.favour = l, favour
	}
	if m.favour == 255 || m.tries > 1 {
		return m.choose(now)
	}
	return nil
}

// refused remembers what a server said instead of an offer.
func (m *Machine) refused(err error) {
	m.dropped++
	m.problem = "a server's answer cannot be used: " + err.Error()
}

// replied ends an exchange.
func (m *Machine) replied(now time.Duration, d *dhcpv6.Message, l *Lease, err error) []*dhcpv6.Message {
	code := iana.StatusSuccess
	var r refusal
	if errors.As(err, &r) {
		code = r.code
	}
	switch m.state {
	case Informing:
		if err == nil {
			m.hold(l)
		}
		return nil
	case Confirming:
		if code == iana.StatusNotOnLink {
			m.lose(now, "the link has other addresses now")
		} else if d.Options.Status() != nil && code == iana.StatusSuccess {
			m.begin(Bound, max(m.lease.Renew, now))
			return m.Tick(now)
		}
		return nil
	case Soliciting:
		if d.GetOneOption(dhcpv6.OptionRapidCommit) == nil {
			return nil
		}
	case Requesting:
		if !bytes.Equal(d.Options.ServerID().ToBytes(), m.offer.Server) {
			return nil
		}
	case Renewing:
		if !bytes.Equal(d.Options.ServerID().ToBytes(), m.lease.Server) {
			return nil
		}
	case Rebinding:
	default:
		return nil
	}
	return m.granted(now, d, l, err, code)
}

// granted takes a lease, or does what the refusal asks for (RFC 8415, section
// 18.2.10.1). A lease that is in use goes on until its end whatever is said.
func (m *Machine) granted(now time.Duration, d *dhcpv6.Message, l *Lease, err error, code iana.StatusCode) []*dhcpv6.Message {
	if err == nil && l.unassigned {
		err = errNoAddress
	}
	if err == nil {
		m.hold(l)
		return nil
	}
	m.refused(err)
	switch {
	case code == iana.StatusNoBinding && (m.state == Renewing || m.state == Rebinding):
		// The server forgot us: ask it for the same again.
		again := *m.lease
		again.Server = d.Options.ServerID().ToBytes()
		m.offer = &again
		return m.choose(now)
	case code == iana.StatusNotOnLink || code == iana.StatusNoAddrsAvail:
		if m.state == Requesting {
			m.restart(now)
		}
	}
	return nil // the timer asks again
}
