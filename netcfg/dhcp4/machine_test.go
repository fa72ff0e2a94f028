package dhcp4

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
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
	if len(s.out) == 0 {
		s.run(2 * time.Minute)
	}
	return s.took(kind)
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
	s.state(Checking)
	for s.m.state == Checking {
		s.run(time.Second)
	}
	s.state(Bound)
	s.out = nil
}

func TestAcquire(t *testing.T) {
	s := newScript(t, nil)
	s.up()
	discover := s.sent(dhcpv4.MessageTypeDiscover)
	if s.now > time.Minute+firstDelay {
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
	s.answer(request, dhcpv4.MessageTypeAck, server1, "10.0.0.50")
	asked := s.now
	for range probes {
		if len(s.out) != 1 || s.out[0] != (Probe{netip.MustParseAddr("10.0.0.50")}) {
			t.Fatalf("did %v, want a probe", s.out)
		}
		if s.m.lease != nil {
			t.Fatal("used before it was probed")
		}
		s.run(time.Second)
	}
	if s.state(Bound); s.out[0] != (Announce{netip.MustParseAddr("10.0.0.50")}) {
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

// Somebody on the link has the address: it is declined, named, and not used.
func TestConflict(t *testing.T) {
	other := [6]byte{2, 0, 0, 0, 0, 9}
	address := netip.MustParseAddr("10.0.0.50")
	for name, packet := range map[string]struct {
		mac            [6]byte
		sender, target netip.Addr
		conflict       bool
	}{
		"holder":       {other, address, netip.MustParseAddr("10.0.0.7"), true},
		"other prober": {other, netip.IPv4Unspecified(), address, true},
		"bystander":    {other, netip.MustParseAddr("10.0.0.7"), address, false},
		"ourselves":    {ownMAC, netip.IPv4Unspecified(), address, false},
	} {
		s := newScript(t, nil)
		s.up()
		discover := s.sent(dhcpv4.MessageTypeDiscover)
		s.answer(discover, dhcpv4.MessageTypeOffer, server1, "10.0.0.50")
		request := s.took(dhcpv4.MessageTypeRequest)
		s.answer(request, dhcpv4.MessageTypeAck, server1, "10.0.0.50")
		s.out = s.m.Heard(s.now, packet.mac, packet.sender, packet.target)
		if !packet.conflict {
			s.state(Checking)
			continue
		}
		decline := s.took(dhcpv4.MessageTypeDecline).Message
		if !decline.RequestedIPAddress().Equal(netIP(address)) || !decline.ServerIdentifier().Equal(netIP(server1)) ||
			decline.Options.Has(dhcpv4.OptionParameterRequestList) || !decline.ClientIPAddr.IsUnspecified() {
			t.Errorf("%s: %s", name, decline.Summary())
		}
		if reason, _ := s.m.Status().Waiting(s.now); reason != "10.0.0.50 of 10.0.0.1 is in use by 02:00:00:00:00:09" {
			t.Errorf("%s: reason %q", name, reason)
		}
		before := s.now
		if s.sent(dhcpv4.MessageTypeDiscover); s.now-before < afterRefusal {
			t.Errorf("%s: again after %s", name, s.now-before)
		}
	}
}

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
		if s.state(Bound); s.m.lease.Expire != s.now+10*time.Minute {
			t.Errorf("lease %+v", s.m.lease)
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
		s.state(Bound)
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

// What is not for us changes nothing.
func TestForeignMessages(t *testing.T) {
	s := newScript(t, nil)
	s.up()
	discover := s.sent(dhcpv4.MessageTypeDiscover)
	change := func(change func(*dhcpv4.DHCPv4)) []byte {
		d, err := dhcpv4.FromBytes(answer(discover.Message, dhcpv4.MessageTypeOffer, server1, "10.0.0.50"))
		if err != nil {
			t.Fatal(err)
		}
		change(d)
		return d.ToBytes()
	}
	for name, b := range map[string][]byte{
		"other transaction": change(func(d *dhcpv4.DHCPv4) { d.TransactionID[0]++ }),
		"other machine":     change(func(d *dhcpv4.DHCPv4) { d.ClientHWAddr = net.HardwareAddr{2, 0, 0, 0, 0, 2} }),
		"other client id":   change(func(d *dhcpv4.DHCPv4) { d.UpdateOption(dhcpv4.OptClientIdentifier([]byte{1, 2})) }),
		"a request":         change(func(d *dhcpv4.DHCPv4) { d.OpCode = dhcpv4.OpcodeBootRequest }),
		"no server":         change(func(d *dhcpv4.DHCPv4) { d.DeleteOption(dhcpv4.OptionServerIdentifier) }),
		"no lease time":     change(func(d *dhcpv4.DHCPv4) { d.DeleteOption(dhcpv4.OptionIPAddressLeaseTime) }),
		"lease of a second": change(func(d *dhcpv4.DHCPv4) { d.UpdateOption(dhcpv4.OptIPAddressLeaseTime(time.Second)) }),
		"multicast address": change(func(d *dhcpv4.DHCPv4) { d.YourIPAddr = net.IPv4(224, 0, 0, 1) }),
		"no address":        change(func(d *dhcpv4.DHCPv4) { d.YourIPAddr = net.IPv4zero }),
		"holes in the mask": change(func(d *dhcpv4.DHCPv4) { d.UpdateOption(dhcpv4.OptSubnetMask(net.IPMask{255, 0, 255, 0})) }),
		"cut off":           answer(discover.Message, dhcpv4.MessageTypeOffer, server1, "10.0.0.50")[:250],
		"empty":             nil,
	} {
		if out := s.m.Receive(s.now, b); len(out) > 0 || s.m.state != Selecting {
			t.Errorf("%s: did %v, state %s", name, out, s.m.state)
		}
	}
	if got := s.m.Status().Dropped; got != 9 {
		t.Errorf("dropped %d", got)
	}
	echo := change(func(d *dhcpv4.DHCPv4) { d.UpdateOption(dhcpv4.OptClientIdentifier(ownID)) })
	s.out = s.m.Receive(s.now, echo)
	s.took(dhcpv4.MessageTypeRequest)
}

// 200 clients whose switch came up at once: they never speak as one.
func TestNoHerd(t *testing.T) {
	perSecond := map[time.Duration]int{}
	for i := range 200 {
		s := newScript(t, nil)
		s.m.rnd = rand.New(rand.NewPCG(uint64(i), 7))
		s.up()
		for start := s.now; s.now < start+10*time.Minute; {
			s.sent(dhcpv4.MessageTypeDiscover)
			perSecond[(s.now-start)/time.Second]++
		}
	}
	for from := 90 * time.Second; from < 10*time.Minute; from += time.Minute {
		sum, peak := 0, 0
		for sec := from / time.Second; sec < from/time.Second+60; sec++ {
			sum += perSecond[sec]
			peak = max(peak, perSecond[sec])
		}
		if mean := float64(sum) / 60; float64(peak) > 3*mean+3 {
			t.Errorf("minute from %s: %d in one second, %.1f on average", from, peak, mean)
		}
	}
}

// Whatever bytes arrive, in whatever state: no panic, and the timers go on.
func FuzzReceive(f *testing.F) {
	offer := answer(&dhcpv4.DHCPv4{HWType: 1, ClientHWAddr: ownMAC[:]}, dhcpv4.MessageTypeOffer, server1, "10.0.0.50",
		dhcpv4.OptRouter(netIP(server1)), dhcpv4.OptClasslessStaticRoute(&dhcpv4.Route{Dest: &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, Router: netIP(server2)}),
		dhcpv4.OptGeneric(dhcpv4.OptionDNSDomainSearchList, []byte("\x03foo\x07example\x00\x03bar\xc0\x04")))
	f.Add(offer, uint16(0))
	f.Add(answer(&dhcpv4.DHCPv4{HWType: 1, ClientHWAddr: ownMAC[:]}, dhcpv4.MessageTypeAck, server1, "10.0.0.50", dhcpv4.OptIPAddressLeaseTime(0xffffffff*time.Second), dhcpv4.OptRenewTimeValue(0xfffffffe*time.Second)), uint16(3))
	f.Add(answer(&dhcpv4.DHCPv4{HWType: 1, ClientHWAddr: ownMAC[:]}, dhcpv4.MessageTypeNak, server1, nobody), uint16(5))
	f.Add(offer[:241], uint16(2))
	f.Fuzz(func(t *testing.T, b []byte, steps uint16) {
		s := newScript(t, nil)
		s.up()
		for range 1 + steps%64 {
			if s.run(time.Hour); s.m.Next() == Forever {
				break
			}
			own := append([]byte{}, b...)
			if len(own) > 8 {
				binary.BigEndian.PutUint32(own[4:], binary.BigEndian.Uint32(s.m.xid[:]))
			}
			s.m.Receive(s.now, own)
			if l := s.m.lease; l != nil && (l.Expire <= s.now || l.Renew > l.Rebind || l.Rebind > l.Expire || !l.Address.IsValid()) {
				t.Fatalf("lease %+v at %s", l, s.now)
			}
			if s.m.state.holds() != (s.m.lease != nil) {
				t.Fatalf("state %s with lease %v", s.m.state, s.m.lease)
			}
		}
	})
}

func FuzzFrames(f *testing.F) {
	f.Add(udpFrame(server1, server2, []byte("hello")))
	f.Add(arpFrame(ownMAC, server1, server2))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = udpPayload(b)
		parseARP(b)
	})
}

// A fifth of all packets is lost, in both directions: a lease of 10 minutes
// comes in time, and in 200 days, some 57,000 renewals, hardly ever ends.
func TestPacketLoss(t *testing.T) {
	ended := 0
	for seed := range uint64(200) {
		s := newScript(t, nil)
		loss := rand.New(rand.NewPCG(seed, 3))
		s.m.rnd = rand.New(rand.NewPCG(seed, 4))
		lost := func() bool { return loss.IntN(5) == 0 }
		begin := s.now
		bound := time.Duration(0)
		for s.up(); s.now < begin+24*time.Hour; {
			if len(s.out) == 0 {
				s.run(time.Hour)
				continue
			}
			a := s.out[0]
			s.out = s.out[1:]
			if _, ok := a.(Announce); ok && bound == 0 {
				bound = s.now - begin
			} else if ok {
				ended++
			}
			send, ok := a.(Send)
			if !ok || lost() || lost() {
				continue
			}
			kind := dhcpv4.MessageTypeAck
			if send.Message.MessageType() == dhcpv4.MessageTypeDiscover {
				kind = dhcpv4.MessageTypeOffer
			}
			s.answer(send, kind, server1, "10.0.0.50")
		}
		if bound == 0 || bound > 2*time.Minute {
			t.Errorf("seed %d: bound after %s", seed, bound)
		}
	}
	if ended > 2 {
		t.Errorf("%d leases ended", ended)
	}
	t.Logf("%d leases ended", ended)
}
