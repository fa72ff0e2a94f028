package netcfg

import (
	"net"
	"net/netip"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"

	"reveille/internal/synctest"
	"reveille/netcfg/dhcp6"
)

// fakeLink6 is a link with a DHCPv6 server that has a name server, and addresses
// when it is to give some.
type fakeLink6 struct {
	*fakeServer
	answers chan []byte
}

func (f *fakeServer) listen6(int, string) (dhcp6.Link, error) {
	return &fakeLink6{f, make(chan []byte, 16)}, nil
}

func (l *fakeLink6) Close() error { close(l.answers); return nil }

func (l *fakeLink6) Receive(message func([]byte, netip.Addr)) {
	for b := range l.answers {
		message(b, netip.MustParseAddr("fe80::11"))
	}
}

func (l *fakeLink6) Send(message []byte) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, err := dhcpv6.MessageFromBytes(message)
	if err != nil {
		return err
	}
	l.heard = append(l.heard, d.MessageType.String())
	if l.silent || d.MessageType == dhcpv6.MessageTypeSolicit && l.address == "" {
		return nil
	}
	answer := &dhcpv6.Message{MessageType: dhcpv6.MessageTypeReply, TransactionID: d.TransactionID}
	answer.AddOption(d.GetOneOption(dhcpv6.OptionClientID))
	answer.AddOption(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionServerID, OptionData: []byte{0, 3, 0, 1, 2, 0, 0, 0, 0, 0x11}})
	answer.AddOption(dhcpv6.OptDNS(net.ParseIP("2001:db8::53")))
	if ia := d.Options.OneIANA(); ia != nil {
		answer.AddOption(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionRapidCommit})
		ia.Options.Options = dhcpv6.Options{&dhcpv6.OptIAAddress{IPv6Addr: net.ParseIP(l.address), PreferredLifetime: l.lease, ValidLifetime: l.lease}}
		answer.AddOption(ia)
	}
	l.answers <- answer.ToBytes()
	return nil
}

// Routers change what they say of DHCPv6. A lease without addresses is no reason
// not to ask for some, and one that is lost not to ask for the rest.
func TestRoutersChangeTheirMind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDHCPStage(t, `ethernets: {eth0: {dhcp6: true}}`, leaseStore{})
		s.leases.env.listen6 = s.server.listen6
		s.server.address = ""
		say := func(managed bool, want string) {
			t.Helper()
			s.happen(func() {
				s.fake.wait() // the link-local address is checked
				d := s.fake.state.named("eth0")
				d.RAManaged, d.RAOther = managed, true
			})
			time.Sleep(700 * time.Millisecond) // before anything is asked twice
			if got := s.asked(); got != want {
				t.Errorf("asked %s, want %s; %+v", got, want, s.Status().Leases)
			}
		}
		s.plug(t)
		s.start(t)
		say(false, "[INFORMATION-REQUEST]")
		say(true, "[SOLICIT]")
		say(false, "[INFORMATION-REQUEST]")
		s.server.set(func() { s.server.address = "2001:db8::50" })
		say(true, "[SOLICIT]")
		s.happen(s.fake.wait)
		say(false, "[]")
		if l := s.Status().Leases[0]; len(l.Addresses) != 1 {
			t.Errorf("lost its address: %+v", l)
		}
		s.server.set(func() { s.server.silent = true })
		time.Sleep(s.server.lease)
		s.server.set(func() { s.server.silent, s.server.heard = false, nil })
		time.Sleep(2 * time.Minute)
		if l := s.Status().Leases[0]; len(l.DNS) != 1 || len(l.Addresses) > 0 {
			t.Errorf("asked %s; %+v", s.asked(), l)
		}
	})
}
