package dhcp4

import (
	"net/netip"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

var (
	otherMAC = [6]byte{2, 0, 0, 0, 0, 9}
	portMAC  = [6]byte{2, 0, 0, 0, 0, 2} // of another port of ours
	leased   = netip.MustParseAddr("10.0.0.50")
)

// Somebody on the link has the address: before it is used or in its first
// seconds, it is declined, named, and not used any more.
func TestConflict(t *testing.T) {
	bystander := netip.MustParseAddr("10.0.0.7")
	for name, packet := range map[string]struct {
		mac            [6]byte
		sender, target netip.Addr
		before, inUse  bool // a conflict then
	}{
		"holder":       {otherMAC, leased, bystander, true, true},
		"other prober": {otherMAC, netip.IPv4Unspecified(), leased, true, false},
		"bystander":    {otherMAC, bystander, leased, false, false},
		"ourselves":    {ownMAC, leased, leased, false, false},
		"our port":     {portMAC, leased, leased, false, false},
	} {
		for _, when := range []State{Requesting, Checking, Watching, Bound} {
			s := newScript(t, nil)
			s.m.cfg.Ours = func(mac [6]byte) bool { return mac == portMAC }
			s.up()
			discover := s.sent(dhcpv4.MessageTypeDiscover)
			s.answer(discover, dhcpv4.MessageTypeOffer, server1, "10.0.0.50")
			request := s.took(dhcpv4.MessageTypeRequest)
			heard := func() { s.out = s.m.Heard(s.now, packet.mac, packet.sender, packet.target) }
			if when == Requesting {
				if heard(); len(s.out) > 0 {
					t.Errorf("%s: did %v, before anything was granted", name, s.out)
				}
			}
			s.answer(request, dhcpv4.MessageTypeAck, server1, "10.0.0.50")
			for s.m.state != when && when != Requesting {
				s.run(time.Second)
			}
			if when != Requesting {
				heard()
			}
			conflict := packet.before
			if when == Watching || when == Bound {
				conflict = packet.inUse && when == Watching
			}
			if conflict {
				s.declined(name)
			} else if s.run(time.Minute); s.m.lease == nil {
				t.Errorf("%s while %s: not used: %s", name, when, s.m.problem)
			}
		}
	}
}

// declined is the end of a lease that somebody else uses.
func (s *script) declined(name string) {
	s.t.Helper()
	decline := s.took(dhcpv4.MessageTypeDecline).Message
	if !decline.RequestedIPAddress().Equal(netIP(leased)) || !decline.ServerIdentifier().Equal(netIP(server1)) ||
		decline.Options.Has(dhcpv4.OptionParameterRequestList) || !decline.ClientIPAddr.IsUnspecified() {
		s.t.Errorf("%s: %s", name, decline.Summary())
	}
	if reason, _ := s.m.Status().Waiting(s.now); reason != "10.0.0.50 of 10.0.0.1 is in use by 02:00:00:00:00:09" {
		s.t.Errorf("%s: reason %q", name, reason)
	}
	before := s.now
	if s.sent(dhcpv4.MessageTypeDiscover); s.now-before < afterRefusal {
		s.t.Errorf("%s: again after %s", name, s.now-before)
	}
}

// A lease that is to be renewed before its address was watched to the end.
func TestWatchOutlastsRenewal(t *testing.T) {
	s := newScript(t, nil)
	s.up()
	discover := s.sent(dhcpv4.MessageTypeDiscover)
	short := []dhcpv4.Option{dhcpv4.OptIPAddressLeaseTime(minLease), dhcpv4.OptRenewTimeValue(3 * time.Second)}
	s.answer(discover, dhcpv4.MessageTypeOffer, server1, "10.0.0.50", short...)
	s.answer(s.took(dhcpv4.MessageTypeRequest), dhcpv4.MessageTypeAck, server1, "10.0.0.50", short...)
	for s.m.state != Renewing {
		if s.run(time.Minute); s.m.lease == nil {
			t.Fatal("never renewed")
		}
	}
	if len(s.out) != 2 || s.out[0] != (Announce{leased}) {
		t.Errorf("did %v", s.out)
	}
}
