package dhcp4

import (
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

var (
	ownMAC  = [6]byte{2, 0, 0, 0, 0, 1}
	server1 = netip.MustParseAddr("10.0.0.1")
	server2 = netip.MustParseAddr("10.0.0.2")
	ownID   = []byte{255, 0, 0, 0, 1, 0, 4, 1, 2, 3}
)

// script drives a machine and looks at what it sends.
type script struct {
	t   *testing.T
	m   *Machine
	now time.Duration
	out []Action
}

func newScript(t *testing.T, lease *Lease) *script {
	s := &script{t: t, now: time.Minute}
	s.m = NewMachine(Config{MAC: ownMAC, ClientID: ownID, Hostname: "n1"}, lease, rand.New(rand.NewPCG(1, 2)))
	return s
}

// run lets time pass until something is done, or until d has passed.
func (s *script) run(d time.Duration) {
	s.t.Helper()
	end := s.now + d
	s.out = nil
	for len(s.out) == 0 && s.m.Next() <= end {
		if s.m.Next() < s.now-time.Minute {
			s.t.Fatal("the machine's timer stands still")
		}
		s.now = max(s.now, s.m.Next())
		s.out = s.m.Tick(s.now)
	}
	if len(s.out) == 0 {
		s.now = end
	}
}

// sent is the next message that the machine sends within two minutes.
func (s *script) sent(kind dhcpv4.MessageType) Send {
	s.t.Helper()
	if s.skipProbes(); len(s.out) == 0 {
		s.run(2 * time.Minute)
	}
	return s.took(kind)
}

// skipProbes passes over what goes out beside messages.
func (s *script) skipProbes() {
	s.out = slices.DeleteFunc(s.out, func(a Action) bool { _, is := a.(Probe); return is })
}

func (s *script) took(kind dhcpv4.MessageType) Send {
	s.t.Helper()
	if len(s.out) == 0 {
		s.t.Fatalf("sent nothing, want %s; state %s", kind, s.m.state)
	}
	send, ok := s.out[0].(Send)
	if !ok || send.Message.MessageType() != kind {
		s.t.Fatalf("did %v, want %s", s.out[0], kind)
	}
	s.out = s.out[1:]
	return send
}

func (s *script) state(want State) {
	s.t.Helper()
	if s.m.state != want {
		s.t.Fatalf("state %s, want %s (%s)", s.m.state, want, s.m.problem)
	}
}

func (s *script) up() { s.out = s.m.Up(s.now) }

// answer is a server's reply to a message.
func answer(to *dhcpv4.DHCPv4, kind dhcpv4.MessageType, server netip.Addr, address string, options ...dhcpv4.Option) []byte {
	r := &dhcpv4.DHCPv4{
		OpCode: dhcpv4.OpcodeBootReply, HWType: to.HWType, TransactionID: to.TransactionID,
		ClientHWAddr: to.ClientHWAddr, ClientIPAddr: net.IPv4zero, GatewayIPAddr: net.IPv4zero,
		YourIPAddr: net.ParseIP(address), ServerIPAddr: net.IPv4(10, 9, 9, 9), Options: dhcpv4.Options{},
	}
	r.UpdateOption(dhcpv4.OptMessageType(kind))
	r.UpdateOption(dhcpv4.OptServerIdentifier(netIP(server)))
	if kind != dhcpv4.MessageTypeNak {
		r.UpdateOption(dhcpv4.OptSubnetMask(net.CIDRMask(24, 32)))
		r.UpdateOption(dhcpv4.OptIPAddressLeaseTime(10 * time.Minute))
	}
	for _, o := range options {
		r.UpdateOption(o)
	}
	return r.ToBytes()
}

const nobody = "0.0.0.0"

func (s *script) answer(to Send, kind dhcpv4.MessageType, server netip.Addr, address string, options ...dhcpv4.Option) {
	s.out = s.m.Receive(s.now, answer(to.Message, kind, server, address, options...))
}

// bind goes through a whole acquisition.
func (s *script) bind(address string, options ...dhcpv4.Option) {
	s.t.Helper()
	discover := s.sent(dhcpv4.MessageTypeDiscover)
	s.answer(discover, dhcpv4.MessageTypeOffer, server1, address, options...)
	request := s.took(dhcpv4.MessageTypeRequest)
	s.answer(request, dhcpv4.MessageTypeAck, server1, address, options...)
	for s.state(Checking); s.m.state == Checking || s.m.state == Watching; {
		s.run(time.Second)
	}
	s.state(Bound)
	s.out = nil
}
