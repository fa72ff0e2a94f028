package dhcp4

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// The renewal goes to the server identifier whatever siaddr is, with the
// address in ciaddr and neither option 50 nor 54.
func TestRenew(t *testing.T) {
	s := newScript(t, nil)
	s.up()
	s.bind("10.0.0.50")
	old := s.m.Status().Lease
	s.run(time.Hour)
	s.state(Renewing)
	renew := s.took(dhcpv4.MessageTypeRequest)
	d := renew.Message
	if renew.To != server1 || renew.From.String() != "10.0.0.50" || !d.ClientIPAddr.Equal(net.IPv4(10, 0, 0, 50)) ||
		d.Options.Has(dhcpv4.OptionRequestedIPAddress) || d.Options.Has(dhcpv4.OptionServerIdentifier) || d.IsBroadcast() {
		t.Errorf("to %s from %s: %s", renew.To, renew.From, d.Summary())
	}
	if s.now > old.Renew || s.now < old.Renew-(old.Renew-old.Start)/20-time.Second {
		t.Errorf("renewed at %s of %s", s.now-old.Start, old.Renew-old.Start)
	}
	s.answer(renew, dhcpv4.MessageTypeAck, server2, "10.0.0.50") // not whom we asked
	s.state(Renewing)
	s.answer(renew, dhcpv4.MessageTypeAck, server1, "10.0.0.51") // not what we asked for
	s.state(Renewing)
	s.answer(renew, dhcpv4.MessageTypeAck, server1, "10.0.0.50")
	s.state(Bound)
	if l := s.m.Status().Lease; l.Expire != s.now+10*time.Minute || l.Address != old.Address || len(s.out) > 0 {
		t.Errorf("lease %+v, did %v", l, s.out)
	}
}

// The server is gone: renewing by unicast, then rebinding by broadcast, then
// the lease ends and is not used a moment longer.
func TestExpire(t *testing.T) {
	for _, length := range []time.Duration{minLease, time.Minute, 10 * time.Minute, 100 * 24 * time.Hour} {
		s := newScript(t, nil)
		s.up()
		s.bind("10.0.0.50", dhcpv4.OptIPAddressLeaseTime(length))
		l := s.m.Status().Lease
		count := map[State]int{}
		for s.m.lease != nil {
			if s.run(length); len(s.out) == 0 {
				break
			}
			d := s.out[0].(Send)
			if count[s.m.state]++; d.To.IsValid() != (s.m.state == Renewing) || s.m.state == Rebinding && s.now < l.Rebind {
				t.Errorf("%s: %s to %s at %s", length, s.m.state, d.To, s.now-l.Start)
			}
		}
		if s.now < l.Expire || s.now > l.Expire+firstDelay {
			t.Errorf("%s: ended at %s", length, s.now-l.Start)
		}
		if count[Renewing] < 2 || count[Rebinding] < 1 || count[Renewing]+count[Rebinding] > 40 {
			t.Errorf("%s: tries %v", length, count)
		}
		if reason, _ := s.m.Status().Waiting(s.now); !strings.Contains(reason, "10.0.0.50") {
			t.Errorf("%s: reason %q", length, reason)
		}
		s.sent(dhcpv4.MessageTypeDiscover)
	}
}

func TestRebindingTakesAnyServer(t *testing.T) {
	s := newScript(t, nil)
	s.up()
	s.bind("10.0.0.50")
	for s.m.state != Rebinding {
		s.run(time.Hour)
	}
	rebind := s.took(dhcpv4.MessageTypeRequest)
	s.answer(rebind, dhcpv4.MessageTypeNak, server2, nobody)
	s.state(Rebinding)
	s.answer(rebind, dhcpv4.MessageTypeAck, server2, "10.0.0.50")
	if s.state(Bound); s.m.lease.Server != server2 {
		t.Errorf("server %s", s.m.lease.Server)
	}
}

// A refusal of the lease's server takes the address away, and a new one may be
// bound at once; that of somebody else means nothing.
func TestRefusedRenewal(t *testing.T) {
	s := newScript(t, nil)
	s.up()
	s.bind("10.0.0.50")
	s.run(time.Hour)
	renew := s.took(dhcpv4.MessageTypeRequest)
	s.answer(renew, dhcpv4.MessageTypeNak, server2, nobody)
	if s.state(Renewing); s.m.lease == nil {
		t.Fatal("a foreign refusal took the lease")
	}
	s.answer(renew, dhcpv4.MessageTypeNak, server1, nobody)
	if s.m.lease != nil {
		t.Fatal("the lease stays after its refusal")
	}
	s.bind("10.0.0.60")
}

// Another server refuses every request while ours grants them.
func TestForeignRefusals(t *testing.T) {
	s := newScript(t, nil)
	s.up()
	discover := s.sent(dhcpv4.MessageTypeDiscover)
	s.answer(discover, dhcpv4.MessageTypeOffer, server1, "10.0.0.50")
	request := s.took(dhcpv4.MessageTypeRequest)
	s.answer(request, dhcpv4.MessageTypeNak, server2, nobody)
	s.state(Requesting)
	s.answer(request, dhcpv4.MessageTypeAck, server2, "10.0.0.50")
	s.state(Requesting)
	s.answer(request, dhcpv4.MessageTypeAck, server1, "10.0.0.50")
	s.state(Checking)
}

// A server that refuses whatever it offers is asked ever more slowly.
func TestRefusesAll(t *testing.T) {
	s := newScript(t, nil)
	s.up()
	start, asked := s.now, 0
	for s.now < start+5*time.Minute {
		discover := s.sent(dhcpv4.MessageTypeDiscover)
		asked++
		s.answer(discover, dhcpv4.MessageTypeOffer, server1, "10.0.0.50")
		request := s.took(dhcpv4.MessageTypeRequest)
		s.answer(request, dhcpv4.MessageTypeNak, server1, nobody)
	}
	if asked > 32 {
		t.Errorf("asked %d times in 5 minutes", asked)
	}
	if reason, _ := s.m.Status().Waiting(s.now); reason != "10.0.0.1 refused 10.0.0.50" {
		t.Errorf("reason %q", reason)
	}
}

func TestSilentAfterOffer(t *testing.T) {
	s := newScript(t, nil)
	s.up()
	discover := s.sent(dhcpv4.MessageTypeDiscover)
	s.answer(discover, dhcpv4.MessageTypeOffer, server1, "10.0.0.50")
	for range requestTries {
		s.sent(dhcpv4.MessageTypeRequest)
	}
	if next := s.sent(dhcpv4.MessageTypeDiscover); next.Message.TransactionID == discover.Message.TransactionID {
		t.Error("a new exchange with the old transaction")
	}
}
