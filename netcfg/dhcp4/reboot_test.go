package dhcp4

import (
	"net"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// boundFor is a script with a lease of 10 minutes, age old, on a link down.
func boundFor(t *testing.T, age time.Duration) *script {
	s := newScript(t, nil)
	s.up()
	s.bind("10.0.0.50")
	s.m.Down()
	s.now += age
	return s
}

func TestCarrierComesBack(t *testing.T) {
	t.Run("granted", func(t *testing.T) {
		s := boundFor(t, time.Minute)
		s.up()
		request := s.took(dhcpv4.MessageTypeRequest)
		d := request.Message
		if s.m.lease == nil || request.To.IsValid() || !d.ClientIPAddr.IsUnspecified() || d.Options.Has(dhcpv4.OptionServerIdentifier) ||
			!d.RequestedIPAddress().Equal(net.IPv4(10, 0, 0, 50)) {
			t.Errorf("lease %v, sent %s", s.m.lease, d.Summary())
		}
		s.answer(request, dhcpv4.MessageTypeAck, server1, "10.0.0.50")
		if s.state(Watching); s.m.lease.Expire != s.now+10*time.Minute || len(s.out) != 1 || s.out[0] != (Probe{s.m.lease.Address.Addr()}) {
			t.Errorf("lease %+v, did %v", s.m.lease, s.out)
		}
	})
	t.Run("refused", func(t *testing.T) {
		s := boundFor(t, time.Minute)
		s.up()
		s.answer(s.took(dhcpv4.MessageTypeRequest), dhcpv4.MessageTypeNak, server1, nobody)
		if s.m.lease != nil {
			t.Fatal("kept")
		}
		s.bind("10.0.0.60")
	})
	t.Run("another network", func(t *testing.T) {
		s := boundFor(t, time.Minute)
		s.up()
		s.answer(s.took(dhcpv4.MessageTypeRequest), dhcpv4.MessageTypeNak, server2, nobody)
		if s.m.lease == nil {
			t.Fatal("given up before its own server had time to answer")
		}
		s.sent(dhcpv4.MessageTypeDiscover)
		if s.m.lease != nil {
			t.Error("kept")
		}
	})
	t.Run("both answer", func(t *testing.T) {
		s := boundFor(t, time.Minute)
		s.up()
		request := s.took(dhcpv4.MessageTypeRequest)
		s.answer(request, dhcpv4.MessageTypeNak, server2, nobody)
		s.answer(request, dhcpv4.MessageTypeAck, server1, "10.0.0.50")
		s.state(Watching)
	})
	t.Run("silence", func(t *testing.T) {
		s := boundFor(t, time.Minute)
		s.up()
		for range rebootTries {
			s.sent(dhcpv4.MessageTypeRequest)
		}
		s.run(time.Minute)
		if s.state(Bound); s.m.lease == nil {
			t.Error("lost a lease that still runs")
		}
		s.run(time.Hour)
		if s.state(Renewing); s.took(dhcpv4.MessageTypeRequest).To != server1 {
			t.Error("not renewed at its server")
		}
	})
	t.Run("too late", func(t *testing.T) {
		s := boundFor(t, 11*time.Minute)
		s.up()
		if s.m.lease != nil {
			t.Error("an ended lease is used")
		}
		s.sent(dhcpv4.MessageTypeDiscover)
	})
}

// The lease ends while the cable is out.
func TestExpireWithoutCarrier(t *testing.T) {
	s := boundFor(t, 0)
	s.run(time.Hour)
	if s.state(Off); s.m.lease != nil {
		t.Error("an ended lease is used")
	}
	s.up()
	s.sent(dhcpv4.MessageTypeDiscover)
}

// A client that is started again goes on in the middle of its lease.
func TestResume(t *testing.T) {
	for _, age := range []time.Duration{time.Minute, 6 * time.Minute, 9 * time.Minute, 11 * time.Minute} {
		first := boundFor(t, 0)
		s := newScript(t, first.m.lease)
		s.now = first.m.lease.Start + age
		s.out = s.m.Resume(s.now)
		switch {
		case age < 5*time.Minute:
			if s.state(Bound); len(s.out) > 0 {
				t.Errorf("%s: sent %v", age, s.out)
			}
			s.run(time.Hour)
			s.state(Renewing)
		case age < 8*time.Minute:
			s.took(dhcpv4.MessageTypeRequest)
			s.state(Renewing)
		case age < 10*time.Minute:
			s.took(dhcpv4.MessageTypeRequest)
			s.state(Rebinding)
		default:
			s.sent(dhcpv4.MessageTypeDiscover)
		}
	}
}

func TestInfiniteLease(t *testing.T) {
	s := newScript(t, nil)
	s.up()
	s.bind("10.0.0.50", dhcpv4.OptIPAddressLeaseTime(0xffffffff*time.Second))
	if s.run(200 * 365 * 24 * time.Hour); len(s.out) > 0 || s.m.lease == nil {
		t.Errorf("did %v", s.out)
	}
	s.m.Down()
	s.up()
	s.took(dhcpv4.MessageTypeRequest)
}
