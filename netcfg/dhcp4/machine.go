package dhcp4

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"reveille/netcfg/dhcp"
)

// Config is what a client says of itself.
type Config struct {
	MAC      [6]byte
	ClientID []byte // option 61, its type byte included; nil for none
	Hostname string // option 12; "" for none
	// Ours reports whether a MAC is of another port of this machine; nil for a
	// machine with one port. It may be called at any time, from any goroutine.
	Ours func(mac [6]byte) bool
}

// State is where a client is (RFC 2131, figure 5).
type State = dhcp.State

// The states. Off is a link without carrier; Checking is between the
// acknowledgement and the use of an address (RFC 2131, section 4.4.1), Watching
// its first seconds of use.
const (
	Off              = dhcp.Off
	Init       State = "init"
	Selecting  State = "selecting"
	Requesting State = "requesting"
	Checking   State = "checking"
	Watching   State = "watching"
	Bound      State = "bound"
	Renewing   State = "renewing"
	Rebinding  State = "rebinding"
	Rebooting  State = "rebooting"
)

// holds reports whether the address of the machine's state is in use. Off may
// hold one.
func (m *Machine) holds() bool {
	return m.state == Watching || m.state == Bound || m.asks()
}

// asks reports whether the lease in use was asked for again.
func (m *Machine) asks() bool {
	return m.state == Renewing || m.state == Rebinding || m.state == Rebooting
}

// Action is what the client must do: a Send, a Probe or an Announce.
type Action interface{ isAction() }

// Send is a message to a server.
type Send struct {
	Message *dhcpv4.DHCPv4
	From    netip.Addr // 0.0.0.0 while we have none
	To      netip.Addr // invalid for a broadcast
}

// Probe asks on the link whether somebody has the address (RFC 5227).
type Probe struct{ Address netip.Addr }

// Announce tells the link that we have the address, so that nobody sends to
// the one who had it before.
type Announce struct{ Address netip.Addr }

func (Send) isAction()     {}
func (Probe) isAction()    {}
func (Announce) isAction() {}

// Machine is the protocol of one link. All methods take the time since the
// machine's start, which must not go back, and return what is to be done.
// Whoever drives it calls Tick no later than Next says.
type Machine struct {
	cfg   Config
	rnd   *rand.Rand
	state State
	lease *Lease // in use: not nil in the states that hold one
	offer *Lease // while Requesting and Checking

	xid     dhcpv4.TransactionID
	began   time.Duration // this acquisition, for `secs`
	since   time.Duration // carrier, or the loss of the lease
	sent    time.Duration // the last message
	tries   int           // how often the current message was sent, or probed
	attempt int           // messages without a lease
	next    time.Duration // timer
	refused int           // NAKs and conflicts since the last lease
	foreign bool          // a NAK of somebody else came while Rebooting
	probed  time.Duration // the last probe for the offer
	holder  *[6]byte      // the MAC of who has the offer's address, while Requesting
	// broadcast says that unicast answers do not seem to reach us.
	broadcast bool
	problem   string
	dropped   int
}

// NewMachine is a client of a link without carrier. lease is one that is still
// in use, of an earlier run of this program; nil for none.
func NewMachine(cfg Config, lease *Lease, rnd *rand.Rand) *Machine {
	return &Machine{cfg: cfg, rnd: rnd, state: Off, lease: lease}
}

// Up says that the link has carrier. A client that has a lease asks for it
// again, because the link may lead elsewhere now, and keeps it meanwhile. The
// first message goes at once: what a server cannot take when a switch brings
// up all its ports is asked for again after a pause that differs by a second.
func (m *Machine) Up(now time.Duration) []Action {
	m.attempt, m.refused, m.problem, m.since, m.broadcast = 0, 0, "", now, false
	m.expire(now)
	if m.lease == nil {
		m.offer = nil
		m.enter(Init, now)
		return m.Tick(now)
	}
	m.enter(Rebooting, now)
	m.newExchange(now)
	return m.Tick(now)
}

// Resume says that the link has had carrier all the time since lease was
// saved: the client goes on where its predecessor was.
func (m *Machine) Resume(now time.Duration) []Action {
	if m.lease == nil {
		return m.Up(now)
	}
	m.since = now
	m.enter(Bound, m.lease.Renew)
	return m.Tick(now)
}

// Down says that the link lost its carrier. Its lease goes on.
func (m *Machine) Down() { m.enter(Off, dhcp.Forever) }

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

// The pace of retries. RFC 2131 (section 4.1) doubles from 4 s to 64 s, each
// give or take a second; here a quarter, and from 2 s, because the first
// packet after link-up is often lost. The cap is 16 s until the link has had
// carrier for 5 minutes: LACP and spanning tree open a port after up to 70 s,
// and nobody should wait another minute then.
const (
	retryFirst   = 2 * time.Second
	retryMost    = 64 * time.Second
	retryAtFirst = 16 * time.Second
	youngLink    = 5 * time.Minute
	firstDelay   = 250 * time.Millisecond // at most, after a loss: those whom one server refuses must not ask as one

	requestTries = 4 // then another server may be luckier: after half a minute
	rebootTries  = 4

	// afterRefusal is RFC 2131's least pause after a DECLINE (section 3.1,
	// number 5); it also slows down a server that refuses all it offers.
	afterRefusal = 10 * time.Second

	// In RENEWING and REBINDING half of what is left is waited, but no less
	// than a minute (RFC 2131, section 4.4.5). Of leases below an hour a minute
	// leaves too few tries for a bad link: there it is a 64th.
	leastRenewal = time.Minute
)

// Tick does what is due.
func (m *Machine) Tick(now time.Duration) []Action {
	if m.expire(now); now < m.next {
		return nil
	}
	switch m.state {
	case Init:
		m.newExchange(now)
		m.enter(Selecting, now)
		return m.Tick(now)
	case Selecting:
		return m.discover(now)
	case Requesting:
		if m.tries == requestTries {
			m.problem = fmt.Sprintf("%s offered %s and then went silent", m.offer.Server, m.offer.Address.Addr())
			m.restart(now, 0)
			return nil
		}
		return m.request(now)
	case Checking:
		return m.use(now, m.offer)
	case Watching:
		return m.watch(now)
	case Bound:
		m.newExchange(now)
		m.enter(Renewing, now)
		return m.Tick(now)
	case Renewing, Rebinding:
		return m.renew(now)
	case Rebooting:
		return m.reboot(now)
	}
	m.next = dhcp.Forever
	return nil
}

func (m *Machine) enter(s State, next time.Duration) { m.state, m.next, m.tries = s, next, 0 }

// restart goes back to the beginning, after a pause.
func (m *Machine) restart(now, pause time.Duration) {
	m.offer = nil
	if pause == 0 {
		pause = time.Duration(m.rnd.Int64N(int64(firstDelay)))
	}
	m.enter(Init, now+pause)
}

func (m *Machine) newExchange(now time.Duration) {
	x := m.rnd.Uint32()
	m.xid = dhcpv4.TransactionID{byte(x >> 24), byte(x >> 16), byte(x >> 8), byte(x)}
	m.began, m.foreign = now, false
}

// backoff is the pause after the current try.
func (m *Machine) backoff(now time.Duration) time.Duration {
	most := retryMost
	if now-m.since < youngLink {
		most = retryAtFirst
	}
	pause := min(retryFirst<<min(max(m.tries-1, 0), 6), most)
	return pause - pause/4 + time.Duration(m.rnd.Int64N(int64(pause/2)))
}

// expire takes a lease away that has ended.
func (m *Machine) expire(now time.Duration) {
	if m.lease == nil || now < m.lease.Expire {
		return
	}
	l := m.lease
	m.lease = nil
	m.problem = fmt.Sprintf("the lease of %s from %s ended without a renewal", l.Address.Addr(), l.Server)
	if m.holds() {
		m.attempt, m.since = 0, now
		m.restart(now, 0)
	}
}

// send counts the try, sets the timer and fills in what all messages have.
func (m *Machine) send(now time.Duration, d *dhcpv4.DHCPv4) []Action {
	m.tries++
	m.sent, m.next = now, now+m.backoff(now)
	if !m.holds() {
		m.attempt++
		// Some servers and relays send to the address that they offer, some
		// switches and NICs drop what is not yet ours: after two tries ask
		// for a broadcast (RFC 2131, section 4.1).
		if m.broadcast = m.broadcast || m.tries > 2; m.broadcast {
			d.SetBroadcast()
		}
	}
	return []Action{Send{Message: d, From: netip.IPv4Unspecified()}}
}

func (m *Machine) discover(now time.Duration) []Action {
	return m.send(now, m.message(dhcpv4.MessageTypeDiscover, now))
}

func (m *Machine) request(now time.Duration) []Action {
	d := m.message(dhcpv4.MessageTypeRequest, now)
	d.UpdateOption(dhcpv4.OptRequestedIPAddress(netIP(m.offer.Address.Addr())))
	d.UpdateOption(dhcpv4.OptServerIdentifier(netIP(m.offer.Server)))
	return append(m.send(now, d), m.probe(now, m.offer)...)
}

// reboot asks whoever is there for the address that we have (INIT-REBOOT,
// RFC 2131, section 4.3.2). Without an answer we may keep it while the lease
// lasts.
func (m *Machine) reboot(now time.Duration) []Action {
	switch {
	case m.foreign:
		m.lose(now, "another network's server refused "+m.lease.Address.Addr().String())
		return nil
	case m.tries == rebootTries:
		m.problem = ""
		m.enter(Bound, max(m.lease.Renew, now))
		return m.Tick(now)
	}
	d := m.message(dhcpv4.MessageTypeRequest, now)
	d.UpdateOption(dhcpv4.OptRequestedIPAddress(netIP(m.lease.Address.Addr())))
	return m.send(now, d)
}

// renew asks the lease's own server, and after T2 all of them, with the
// address in ciaddr and neither option 50 nor 54 (RFC 2131, section 4.3.2).
func (m *Machine) renew(now time.Duration) []Action {
	until := m.lease.Rebind
	if now >= until {
		if m.state == Renewing {
			m.newExchange(now)
			m.enter(Rebinding, now)
		}
		until = m.lease.Expire
	}
	d := m.message(dhcpv4.MessageTypeRequest, now)
	d.ClientIPAddr = netIP(m.lease.Address.Addr())
	send := Send{Message: d, From: m.lease.Address.Addr()}
	if m.state == Renewing {
		send.To = m.lease.Server
	}
	least := min(leastRenewal, (m.lease.Expire-m.lease.Start)/64)
	pause := max((until-now)/2, least)
	m.tries++
	m.sent = now
	m.next = min(now+pause-time.Duration(m.rnd.Int64N(int64(pause/8+1))), max(until, now+least))
	return []Action{send}
}

// hold begins to use a lease.
func (m *Machine) hold(l *Lease) {
	m.lease, m.offer = l, nil
	m.attempt, m.refused, m.problem = 0, 0, ""
	renew := l.Renew
	if renew != dhcp.Forever {
		// Up to a twentieth earlier: nodes that booted as one must not
		// renew as one.
		renew -= time.Duration(m.rnd.Int64N(int64(renew-l.Start)/20 + 1))
	}
	m.enter(Bound, renew)
}

// lose stops using the lease, because somebody said so.
func (m *Machine) lose(now time.Duration, why string) {
	m.lease, m.problem = nil, why
	m.attempt, m.since = 0, now
	m.refuse(now)
}

// refuse starts again after a refusal: the first time at once, for the server
// may well offer something else, then slowly.
func (m *Machine) refuse(now time.Duration) {
	m.refused++
	var pause time.Duration
	if m.refused > 1 {
		pause = afterRefusal + time.Duration(m.rnd.Int64N(int64(afterRefusal)))
	}
	m.restart(now, pause)
}
