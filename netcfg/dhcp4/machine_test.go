package dhcp4

import (
	"net"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

func TestAcquire(t *testing.T) {
	s := newScript(t, nil)
	s.up()
	discover := s.sent(dhcpv4.MessageTypeDiscover)
	if s.now > time.Minute {
		t.Errorf("first message after %s", s.now-time.Minute)
	}
	if got := discover.Message.GetOneOption(dhcpv4.OptionClientIdentifier); string(got) != string(ownID) {
		t.Errorf("client identifier %x", got)
	}
	if discover.Message.HostName() != "n1" || discover.To.IsValid() || !discover.From.IsUnspecified() {
		t.Errorf("discover %v", discover)
	}
	s.now += time.Second
	s.answer(discover, dhcpv4.MessageTypeOffer, server1, "10.0.0.50")
	request := s.took(dhcpv4.MessageTypeRequest)
	d := request.Message
	if d.TransactionID != discover.Message.TransactionID || d.NumSeconds != 1 ||
		!d.RequestedIPAddress().Equal(net.IPv4(10, 0, 0, 50)) || !d.ServerIdentifier().Equal(netIP(server1)) || !d.ClientIPAddr.IsUnspecified() {
		t.Errorf("request %s", d.Summary())
	}
	asked := s.now
	probe := Probe{leased}
	if len(s.out) != 1 || s.out[0] != probe {
		t.Errorf("did %v, want a probe", s.out)
	}
	s.answer(request, dhcpv4.MessageTypeAck, server1, "10.0.0.50")
	if s.state(Checking); s.m.lease != nil {
		t.Error("used before a neighbour had time to answer")
	}
	s.now += answerTime
	s.out = s.m.Tick(s.now)
	s.state(Watching)
	used := s.m.lease
	for range probes - 1 {
		if s.run(time.Minute); len(s.out) != 1 || s.out[0] != probe || s.m.lease != used {
			t.Fatalf("did %v, want another probe", s.out)
		}
	}
	if s.run(time.Minute); s.now != asked+answerTime+probes*probeSpacing {
		t.Errorf("watched for %s", s.now-asked)
	}
	if s.state(Bound); len(s.out) != 1 || s.out[0] != (Announce{leased}) {
		t.Errorf("did %v", s.out)
	}
	l := s.m.Status().Lease
	if l.Address.String() != "10.0.0.50/24" || l.Server != server1 || l.Expire != asked+10*time.Minute ||
		l.Renew != asked+5*time.Minute || l.Rebind != asked+525*time.Second {
		t.Errorf("lease %+v", l)
	}
}

// A link that passes nothing for 75 s after it came up: the client still asks,
// not rarely, and counts seconds; after two tries it asks for broadcasts.
func TestSilentLink(t *testing.T) {
	s := newScript(t, nil)
	s.up()
	start := s.now
	var last Send
	for tries := 1; s.now < start+75*time.Second; tries++ {
		before := s.now
		last = s.sent(dhcpv4.MessageTypeDiscover)
		if s.now-before > retryAtFirst*5/4 {
			t.Errorf("silent for %s", s.now-before)
		}
		if last.Message.IsBroadcast() != (tries > 2) {
			t.Errorf("try %d: broadcast %v", tries, last.Message.IsBroadcast())
		}
	}
	if got := last.Message.NumSeconds; got < 60 {
		t.Errorf("secs %d", got)
	}
	reason, detail := s.m.Status().Waiting(s.now)
	if reason != "no answer" || !strings.HasPrefix(detail, "attempt ") || !strings.Contains(detail, " in 1m") {
		t.Errorf("waiting: %q, %q", reason, detail)
	}
	s.answer(last, dhcpv4.MessageTypeOffer, server1, "10.0.0.50")
	if !s.took(dhcpv4.MessageTypeRequest).Message.IsBroadcast() {
		t.Error("forgot that unicast does not reach it")
	}
}

func TestNobodyEverAnswers(t *testing.T) {
	s := newScript(t, nil)
	s.up()
	for range 500 {
		s.sent(dhcpv4.MessageTypeDiscover)
		if pause := s.m.Next() - s.now; pause < retryFirst/2 || pause > retryMost*5/4 {
			t.Fatalf("pause %s", pause)
		}
	}
}
