package dhcp6

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"

	"reveille/netcfg/dhcp"
)

// Config is what a client says of itself and wants.
type Config struct {
	DUID []byte
	IAID [4]byte
}

// State is where a client is.
type State = dhcp.State

// The states are named after the message that is sent in them (RFC 8415,
// section 18.2). Off is a link without carrier.
const (
	Off              = dhcp.Off
	Starting   State = "starting"
	Soliciting State = "soliciting"
	Requesting State = "requesting"
	Bound      State = "bound"
	Renewing   State = "renewing"
	Rebinding  State = "rebinding"
	Confirming State = "confirming"
	Informing  State = "informing"
)

// Machine is the protocol of one link. All methods take the time since the
// machine's start, which must not go back, and return the messages to be sent
// to all servers. Whoever drives it calls Tick no later than Next says.
type Machine struct {
	cfg       Config
	duid      dhcpv6.DUID
	rnd       *rand.Rand
	state     State
	lease     *Lease // in use, in whatever state
	offer     *Lease // while Soliciting the best, while Requesting the chosen one
	favour    int    // the offer's preference
	stateless bool   // routers say that there are no addresses, only configuration

	xid     dhcpv6.TransactionID
	began   time.Duration // this exchange
	sent    time.Duration // the last message
	since   time.Duration // carrier, or the loss of the lease
	wait    time.Duration // the retransmission timeout, RT
	tries   int           // of the current exchange
	attempt int           // messages without a lease
	next    time.Duration // timer
	problem string
	dropped int
}

// NewMachine is a client of a link without carrier. lease is one that is still
// in use, of an earlier run of this program; nil for none.
func NewMachine(cfg Config, lease *Lease, rnd *rand.Rand) *Machine {
	m := &Machine{cfg: cfg, rnd: rnd, state: Off, lease: lease, next: dhcp.Forever}
	m.duid = &dhcpv6.DUIDOpaque{}
	if d, err := dhcpv6.DUIDFromBytes(cfg.DUID); err == nil {
		m.duid = d
	}
	return m
}

// Up says that the link has carrier and an address of its own. stateless says
// that its routers advertise configuration, but no addresses (the O flag
// without M, RFC 4861, section 4.2).
func (m *Machine) Up(now time.Duration, stateless bool) []*dhcpv6.Message {
	m.attempt, m.problem, m.since, m.stateless = 0, "", now, stateless
	m.expire(now)
	if m.lease != nil && len(m.lease.Addresses) > 0 {
		m.begin(Confirming, now)
		return m.Tick(now)
	}
	m.restart(now)
	return nil
}

// Resume says that the link has had carrier ever since the lease was saved.
func (m *Machine) Resume(now time.Duration, stateless bool) []*dhcpv6.Message {
	if m.lease == nil {
		return m.Up(now, stateless)
	}
	m.since, m.stateless = now, stateless
	m.begin(Bound, m.lease.Renew)
	return m.Tick(now)
}

// Down says that the link lost its carrier. Its lease goes on.
func (m *Machine) Down() { m.begin(Off, dhcp.Forever) }

// Status is the state now.
func (m *Machine) Status() dhcp.Status[Lease] {
	return dhcp.Status[Lease]{
		State: m.state, Lease: m.lease, Attempt: m.attempt, Since: m.since, Problem: m.problem, Dropped: m.dropped,
	}
}

// Next is when Tick must be called at the latest.
func (m *Machine) Next() time.Duration {
	if m.lease != nil {
		return min(m.next, m.lease.Expire)
	}
	return m.next
}

// pace is how often a message is sent (RFC 8415, section 7.6): the first
// timeout, the longest one, and how many times, 0 for ever.
type pace struct {
	first, most time.Duration
	tries       int
}

// RFC 7083 lets a client without a server ask once an hour in the end; an
// operator who asked for DHCPv6 has one, and waits. Renewals end with T2 and
// with the lease; 3 confirmations take 10 s.
var paces = map[State]pace{
	Soliciting: {time.Second, 2 * time.Minute, 0},
	Informing:  {time.Second, 2 * time.Minute, 0},
	Requesting: {time.Second, 30 * time.Second, 10},
	Confirming: {time.Second, 4 * time.Second, 4},
	Renewing:   {10 * time.Second, 10 * time.Minute, 0},
	Rebinding:  {10 * time.Second, 10 * time.Minute, 0},
}

const (
	// While the link is young, as in package dhcp4: a port that opens late
	// must not wait long then.
	mostAtFirst = 16 * time.Second
	youngLink   = 5 * time.Minute
	firstDelay  = 250 * time.Millisecond // at most: a rack that is powered on must not ask as one

	// afterDecline slows down a server that gives out what others have.
	afterDecline = 10 * time.Second
)

// Tick does what is due.
func (m *Machine) Tick(now time.Duration) []*dhcpv6.Message {
	if m.expire(now); now < m.next {
		return nil
	}
	switch m.state {
	case Starting:
		if m.stateless {
			m.begin(Informing, now)
		} else {
			m.begin(Soliciting, now)
		}
	case Soliciting:
		if m.tries > 0 && m.offer != nil {
			return m.choose(now)
		}
	case Requesting:
		if m.tries == paces[Requesting].tries {
			m.problem = m.offer.From.String() + " offered an address and then went silent"
			m.restart(now)
			return nil
		}
	case Confirming:
		if m.tries == paces[Confirming].tries {
			m.begin(Bound, max(m.lease.Renew, now)) // nobody objects (section 18.2.3)
			return m.Tick(now)
		}
	case Bound:
		if len(m.lease.Addresses) == 0 {
			m.begin(Informing, now)
		} else {
			m.begin(Renewing, now)
		}
	case Renewing:
		if now >= m.lease.Rebind {
			m.begin(Rebinding, now)
		}
	case Rebinding, Informing:
	default:
		m.next = dhcp.Forever
		return nil
	}
	return m.send(now)
}

// begin enters a state, with a new exchange.
func (m *Machine) begin(s State, next time.Duration) {
	x := m.rnd.Uint32()
	m.xid = dhcpv6.TransactionID{byte(x >> 16), byte(x >> 8), byte(x)}
	m.state, m.next, m.tries, m.wait = s, next, 0, 0
	if s == Soliciting {
		m.offer, m.favour = nil, -1
	}
}

func (m *Machine) restart(now time.Duration) {
	m.offer = nil
	m.begin(Starting, now+time.Duration(m.rnd.Int64N(int64(firstDelay))))
}

// expire takes a lease away that has ended.
func (m *Machine) expire(now time.Duration) {
	if m.lease == nil || now < m.lease.Expire {
		return
	}
	m.lose(now, fmt.Sprintf("the lease of %s from %s ended without a renewal", m.lease.Addresses[0].IP, m.lease.From))
}

// lose stops using the lease.
func (m *Machine) lose(now time.Duration, why string) {
	m.lease, m.problem = nil, why
	m.attempt, m.since = 0, now
	if m.state != Off {
		m.restart(now)
	}
}

// send sends the state's message and sets the timer (RFC 8415, section 15).
func (m *Machine) send(now time.Duration) []*dhcpv6.Message {
	if m.tries == 0 {
		m.began = now
	}
	m.tries++
	if m.lease == nil {
		m.attempt++
	}
	p := paces[m.state]
	most := p.most
	if now-m.since < youngLink {
		most = min(most, max(mostAtFirst, p.first))
	}
	if m.wait = min(2*m.wait, most); m.tries == 1 {
		m.wait = p.first
	}
	jitter := time.Duration(m.rnd.Int64N(int64(m.wait/5))) - m.wait/10
	m.sent, m.next = now, now+m.wait+jitter
	if m.state == Renewing {
		m.next = max(min(m.next, m.lease.Rebind), now+p.first/10)
	}
	return []*dhcpv6.Message{m.message(now)}
}

// choose asks the best server for its offer.
func (m *Machine) choose(now time.Duration) []*dhcpv6.Message {
	m.begin(Requesting, now)
	return m.send(now)
}

// hold begins to use a lease, or to use it longer.
func (m *Machine) hold(l *Lease) {
	m.lease, m.offer = l, nil
	m.attempt, m.problem = 0, ""
	renew := l.Renew
	if renew != dhcp.Forever {
		// Up to a twentieth earlier: nodes that booted as one must not renew
		// as one.
		renew -= time.Duration(m.rnd.Int64N(int64(renew-l.Start)/20 + 1))
	}
	m.begin(Bound, renew)
}

// Conflict says that another machine has one of the addresses (duplicate
// address detection, RFC 8415, section 18.2.8): the server is told, and asked
// for another after a pause.
func (m *Machine) Conflict(now time.Duration, ip netip.Addr) []*dhcpv6.Message {
	if m.lease == nil || m.state == Off {
		return nil
	}
	for _, a := range m.lease.Addresses {
		if a.IP != ip {
			continue
		}
		m.begin(Requesting, now) // for its own transaction
		m.began = now
		d := m.decline(now, a)
		m.lose(now, fmt.Sprintf("%s of %s is in use by another machine", ip, m.lease.From))
		m.next = now + afterDecline + time.Duration(m.rnd.Int64N(int64(afterDecline)))
		return []*dhcpv6.Message{d}
	}
	return nil
}
