package dhcp6

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"reveille/netcfg/dhcp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
	"github.com/insomniacslk/dhcp/iana"
	"github.com/insomniacslk/dhcp/rfc1035label"
)

var (
	ownDUID = []byte{0, 4, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16}
	ownIAID = [4]byte{1, 2, 3, 4}
	server1 = []byte{0, 3, 0, 1, 2, 0, 0, 0, 0, 0x11}
	server2 = []byte{0, 9, 9, 9, 9} // of no kind that anybody knows
	from    = netip.MustParseAddr("fe80::11")
)

type script struct {
	t   *testing.T
	m   *Machine
	now time.Duration
	out []*dhcpv6.Message
}

func newScript(t *testing.T, lease *Lease) *script {
	return &script{t: t, now: time.Minute, m: NewMachine(Config{DUID: ownDUID, IAID: ownIAID}, lease, rand.New(rand.NewPCG(1, 2)))}
}

func (s *script) run(d time.Duration) {
	s.t.Helper()
	end := s.now + d
	s.out = nil
	for len(s.out) == 0 && s.m.Next() <= end {
		s.now = max(s.now, s.m.Next())
		before := s.m.Next()
		if s.out = s.m.Tick(s.now); s.m.Next() <= before && len(s.out) > 0 {
			s.t.Fatal("the machine's timer stands still")
		}
	}
	if len(s.out) == 0 {
		s.now = end
	}
}

// sent is the next message that the machine sends within five minutes.
func (s *script) sent(kind dhcpv6.MessageType) *dhcpv6.Message {
	s.t.Helper()
	if len(s.out) == 0 {
		s.run(5 * time.Minute)
	}
	if len(s.out) == 0 || s.out[0].MessageType != kind {
		s.t.Fatalf("sent %v, want %s; state %s, %s", s.out, kind, s.m.state, s.m.problem)
	}
	d := s.out[0]
	s.out = s.out[1:]
	if got, err := dhcpv6.MessageFromBytes(d.ToBytes()); err != nil || string(got.Options.ClientID().ToBytes()) != string(ownDUID) {
		s.t.Fatalf("sent %v: %v", d, err)
	}
	return d
}

func (s *script) state(want State) {
	s.t.Helper()
	if s.m.state != want {
		s.t.Fatalf("state %s, want %s (%s)", s.m.state, want, s.m.problem)
	}
}

// answer is a server's message.
func answer(to *dhcpv6.Message, kind dhcpv6.MessageType, server []byte, options ...dhcpv6.Option) []byte {
	d := &dhcpv6.Message{MessageType: kind, TransactionID: to.TransactionID}
	d.AddOption(&dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionClientID, OptionData: ownDUID})
	d.AddOption(serverID(server))
	for _, o := range options {
		d.AddOption(o)
	}
	return d.ToBytes()
}

func status(code iana.StatusCode) dhcpv6.Option {
	return &dhcpv6.OptStatusCode{StatusCode: code, StatusMessage: "so\nit is"}
}

func ia(t1, t2 time.Duration, options ...dhcpv6.Option) dhcpv6.Option {
	o := &dhcpv6.OptIANA{IaId: ownIAID, T1: t1, T2: t2}
	for _, in := range options {
		o.Options.Add(in)
	}
	return o
}

func ip(a string, preferred, valid time.Duration) dhcpv6.Option {
	return &dhcpv6.OptIAAddress{IPv6Addr: net.ParseIP(a), PreferredLifetime: preferred, ValidLifetime: valid}
}

var plain = ia(0, 0, ip("2001:db8::50", 10*time.Minute, 20*time.Minute))

const (
	adv   = dhcpv6.MessageTypeAdvertise
	reply = dhcpv6.MessageTypeReply
)

func (s *script) receive(b []byte) { s.out = s.m.Receive(s.now, b, from) }

// bind goes through a whole acquisition.
func (s *script) bind() {
	s.t.Helper()
	s.receive(answer(s.sent(dhcpv6.MessageTypeSolicit), adv, server1, plain))
	s.receive(answer(s.sent(dhcpv6.MessageTypeRequest), reply, server1, plain))
	s.state(Bound)
}

func TestAcquire(t *testing.T) {
	s := newScript(t, nil)
	s.out = s.m.Up(s.now, false)
	solicit := s.sent(dhcpv6.MessageTypeSolicit)
	if solicit.GetOneOption(dhcpv6.OptionRapidCommit) == nil || !slices.Contains(solicit.Options.RequestedOptions(), dhcpv6.OptionSolMaxRT) {
		t.Errorf("solicit %s", solicit.Summary())
	}
	s.receive(answer(solicit, adv, server1, plain))
	s.receive(answer(solicit, adv, server2, plain, dhcpv6.OptPreference(7)))
	s.receive(answer(solicit, adv, server1, ia(0, 0, status(iana.StatusNoAddrsAvail)), dhcpv6.OptPreference(200)))
	s.state(Soliciting)
	request := s.sent(dhcpv6.MessageTypeRequest)
	if string(request.GetOneOption(dhcpv6.OptionServerID).ToBytes()) != string(server2) ||
		!request.Options.OneIANA().Options.OneAddress().IPv6Addr.Equal(net.ParseIP("2001:db8::50")) {
		t.Errorf("request %s", request.Summary())
	}
	s.receive(answer(request, reply, server1, plain)) // whom we did not ask
	s.state(Requesting)
	asked := s.now
	s.receive(answer(request, reply, server2, ia(100*time.Second, 200*time.Second, ip("2001:db8::50", 10*time.Minute, 20*time.Minute), ip("2001:db8::51", 5*time.Minute, 30*time.Minute)),
		dhcpv6.OptDNS(net.ParseIP("2001:db8::53"), net.ParseIP("ff02::1")), dhcpv6.OptDomainSearchList(&rfc1035label.Labels{Labels: []string{"a.example", "bad name"}})))
	s.state(Bound)
	l := s.m.lease
	if len(l.Addresses) != 2 || l.Addresses[1].Preferred != asked+5*time.Minute || l.Expire != asked+30*time.Minute ||
		l.Renew != asked+100*time.Second || l.Rebind != asked+200*time.Second || l.From != from {
		t.Errorf("lease %+v", l)
	}
	if fmt.Sprint(l.DNS, l.Search) != "[2001:db8::53] [a.example]" {
		t.Errorf("lease %+v", l)
	}
}

func TestRapidCommit(t *testing.T) {
	s := newScript(t, nil)
	s.out = s.m.Up(s.now, false)
	solicit := s.sent(dhcpv6.MessageTypeSolicit)
	s.receive(answer(solicit, reply, server1, plain)) // not allowed to
	s.state(Soliciting)
	s.receive(answer(solicit, reply, server1, plain, &dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionRapidCommit}))
	s.state(Bound)
}

func TestHighestPreferenceWinsAtOnce(t *testing.T) {
	s := newScript(t, nil)
	s.out = s.m.Up(s.now, false)
	s.receive(answer(s.sent(dhcpv6.MessageTypeSolicit), adv, server1, plain, dhcpv6.OptPreference(255)))
	s.state(Requesting)
}

// A link that passes nothing for 75 s: the client still asks, not rarely.
func TestSilentLink(t *testing.T) {
	s := newScript(t, nil)
	s.out = s.m.Up(s.now, false)
	start := s.now
	for s.now < start+75*time.Second {
		before := s.now
		if s.sent(dhcpv6.MessageTypeSolicit); s.now-before > mostAtFirst*11/10 {
			t.Errorf("silent for %s", s.now-before)
		}
	}
	if reason, detail := s.m.Status().Waiting(s.now); reason != "no answer" || !strings.Contains(detail, " in 1m") {
		t.Errorf("waiting %q, %q", reason, detail)
	}
	s.bind()
	s = newScript(t, nil)
	s.out = s.m.Up(s.now, false)
	for range 300 {
		if s.sent(dhcpv6.MessageTypeSolicit); s.m.Next()-s.now > 133*time.Second {
			t.Fatalf("pause %s", s.m.Next()-s.now)
		}
	}
}

// Renewing at the lease's server, then rebinding at all, then the end.
func TestExpire(t *testing.T) {
	for _, valid := range []time.Duration{minLife, time.Minute, 20 * time.Minute, 100 * 24 * time.Hour} {
		s := newScript(t, nil)
		s.out = s.m.Up(s.now, false)
		s.receive(answer(s.sent(dhcpv6.MessageTypeSolicit), reply, server1, ia(0, 0, ip("2001:db8::50", valid/2, valid)), &dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionRapidCommit}))
		l := s.m.lease
		count := map[State]int{}
		for s.m.lease != nil {
			if s.run(valid); len(s.out) > 0 && s.m.lease != nil {
				count[s.m.state]++
				if has := s.out[0].GetOneOption(dhcpv6.OptionServerID) != nil; has != (s.m.state == Renewing) {
					t.Errorf("%s: %s with server %v", valid, s.m.state, has)
				}
			}
		}
		if s.now < l.Expire || s.now > l.Expire+firstDelay || count[Renewing] == 0 || count[Rebinding] == 0 {
			t.Errorf("%s: ended after %s, sent %v", valid, s.now-l.Start, count)
		}
		s.sent(dhcpv6.MessageTypeSolicit)
	}
}

func TestRenewal(t *testing.T) {
	bound := func(t *testing.T) *script {
		s := newScript(t, nil)
		s.out = s.m.Up(s.now, false)
		s.bind()
		s.run(time.Hour)
		return s
	}
	t.Run("granted", func(t *testing.T) {
		s := bound(t)
		s.receive(answer(s.sent(dhcpv6.MessageTypeRenew), reply, server1, plain))
		if s.state(Bound); s.m.lease.Expire != s.now+20*time.Minute {
			t.Errorf("lease %+v", s.m.lease)
		}
	})
	t.Run("forgotten", func(t *testing.T) {
		s := bound(t)
		s.receive(answer(s.sent(dhcpv6.MessageTypeRenew), reply, server1, ia(0, 0, status(iana.StatusNoBinding))))
		request := s.sent(dhcpv6.MessageTypeRequest)
		if s.m.lease == nil || request.Options.OneIANA().Options.OneAddress() == nil {
			t.Error("gave up a lease that still runs")
		}
		s.receive(answer(request, reply, server1, plain))
		s.state(Bound)
	})
	t.Run("refused", func(t *testing.T) {
		s := bound(t)
		s.receive(answer(s.sent(dhcpv6.MessageTypeRenew), reply, server1, status(iana.StatusUnspecFail)))
		if s.state(Renewing); s.m.lease == nil || s.m.problem != "a server's answer cannot be used: UnspecFail (soit is)" {
			t.Errorf("problem %q", s.m.problem)
		}
	})
	t.Run("rebound by another", func(t *testing.T) {
		s := bound(t)
		for s.m.state != Rebinding {
			s.run(time.Hour)
		}
		s.receive(answer(s.sent(dhcpv6.MessageTypeRebind), reply, server2, plain))
		if s.state(Bound); string(s.m.lease.Server) != string(server2) {
			t.Errorf("server %x", s.m.lease.Server)
		}
	})
}

func TestCarrierComesBack(t *testing.T) {
	back := func(t *testing.T) *script {
		s := newScript(t, nil)
		s.out = s.m.Up(s.now, false)
		s.bind()
		s.m.Down()
		s.now += time.Minute
		s.out = s.m.Up(s.now, false)
		return s
	}
	t.Run("same link", func(t *testing.T) {
		s := back(t)
		s.receive(answer(s.sent(dhcpv6.MessageTypeConfirm), reply, server1, status(iana.StatusSuccess)))
		s.state(Bound)
	})
	t.Run("other link", func(t *testing.T) {
		s := back(t)
		s.receive(answer(s.sent(dhcpv6.MessageTypeConfirm), reply, server2, status(iana.StatusNotOnLink)))
		if s.m.lease != nil {
			t.Error("kept")
		}
		s.bind()
	})
	t.Run("silence", func(t *testing.T) {
		s := back(t)
		for range paces[Confirming].tries {
			s.sent(dhcpv6.MessageTypeConfirm)
		}
		s.run(20 * time.Second)
		if s.state(Bound); s.m.lease == nil {
			t.Error("lost a lease that still runs")
		}
	})
}

func TestConflict(t *testing.T) {
	s := newScript(t, nil)
	s.out = s.m.Up(s.now, false)
	s.bind()
	if out := s.m.Conflict(s.now, netip.MustParseAddr("2001:db8::99")); out != nil {
		t.Errorf("sent %v", out)
	}
	s.out = s.m.Conflict(s.now, netip.MustParseAddr("2001:db8::50"))
	s.sent(dhcpv6.MessageTypeDecline)
	if reason, _ := s.m.Status().Waiting(s.now); reason != "2001:db8::50 of fe80::11 is in use by another machine" {
		t.Errorf("reason %q", reason)
	}
	before := s.now
	if s.sent(dhcpv6.MessageTypeSolicit); s.now-before < afterDecline {
		t.Errorf("again after %s", s.now-before)
	}
}

// Routers that give addresses themselves: only the configuration is asked for.
func TestStateless(t *testing.T) {
	s := newScript(t, nil)
	s.out = s.m.Up(s.now, true)
	ask := s.sent(dhcpv6.MessageTypeInformationRequest)
	if ask.GetOneOption(dhcpv6.OptionIANA) != nil {
		t.Error("asked for an address")
	}
	s.receive(answer(ask, reply, server1, dhcpv6.OptDNS(net.ParseIP("2001:db8::53")), dhcpv6.OptInformationRefreshTime(time.Second)))
	if s.state(Bound); len(s.m.lease.DNS) != 1 || s.m.lease.Renew != s.now+refreshLeast || s.m.lease.Expire != dhcp.Forever {
		t.Errorf("lease %+v", s.m.lease)
	}
	s.run(time.Hour)
	s.sent(dhcpv6.MessageTypeInformationRequest)
	if s.m.lease == nil {
		t.Error("forgot the configuration")
	}
}

func TestAbsurdLifetimes(t *testing.T) {
	const sec = time.Second
	for _, c := range []struct {
		name string
		ia   dhcpv6.Option
		want string // addresses, renewal and end in seconds
	}{
		{"infinite", ia(infinite, infinite, ip("2001:db8::50", infinite, infinite)), "1 never never"},
		{"infinite but for T1", ia(100*sec, 200*sec, ip("2001:db8::50", infinite, infinite)), "1 100 never"},
		{"the longest", ia(0, 0, ip("2001:db8::50", 0xfffffffe*sec, 0xfffffffe*sec)), "1 2147483647 4294967294"},
		{"preferred over valid", ia(0, 0, ip("2001:db8::50", 600*sec, 300*sec)), "none"},
		{"a second", ia(0, 0, ip("2001:db8::50", sec, sec)), "none"},
		{"deprecated", ia(0, 0, ip("2001:db8::50", 0, 600*sec)), "1 300 600"},
		{"T1 over T2", ia(500*sec, 100*sec, ip("2001:db8::50", 600*sec, 600*sec)), "1 300 600"},
		{"T2 over the end", ia(100*sec, 900*sec, ip("2001:db8::50", 600*sec, 600*sec)), "1 300 600"},
		{"multicast", ia(0, 0, ip("ff02::1", 600*sec, 600*sec)), "none"},
		{"mapped", ia(0, 0, ip("::ffff:10.0.0.1", 600*sec, 600*sec)), "none"},
	} {
		s := newScript(t, nil)
		s.out = s.m.Up(s.now, false)
		solicit := s.sent(dhcpv6.MessageTypeSolicit)
		s.receive(answer(solicit, reply, server1, c.ia, &dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionRapidCommit}))
		got := "none"
		if l := s.m.lease; l != nil {
			in := func(at time.Duration) string {
				if at == dhcp.Forever {
					return "never"
				}
				return fmt.Sprint(int64((at - l.Start) / sec))
			}
			got = fmt.Sprintf("%d %s %s", len(l.Addresses), in(l.Renew), in(l.Expire))
		}
		if got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// bomb is a search list of n bytes: one long name, then pointers to it.
func bomb(n int) dhcpv6.Option {
	b := append(bytes.Repeat([]byte{1, 'a'}, n/4), 0)
	b = append(b, bytes.Repeat([]byte{0xc0, 0}, (n-len(b))/2)...)
	return &dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionDomainSearchList, OptionData: b}
}

// Anybody may send to the port. A message costs little, however it is made, and
// what is wrong with one option leaves the lease.
func TestExpensiveMessages(t *testing.T) {
	s := newScript(t, nil)
	s.out = s.m.Up(s.now, false)
	s.bind()
	s.run(time.Hour)
	renew := s.sent(dhcpv6.MessageTypeRenew)
	stranger := &dhcpv6.Message{TransactionID: dhcpv6.TransactionID{renew.TransactionID[0] + 1}}
	long := &dhcpv6.OptionGeneric{OptionCode: 200, OptionData: make([]byte, 600)}
	for _, c := range []struct {
		name    string
		message []byte
		mib     uint64 // at most allocated
		want    State
	}{
		{"of a stranger", answer(stranger, reply, server1, plain, bomb(maxOption)), 0, Renewing},
		{"too long", answer(renew, reply, server1, plain, bomb(16000)), 0, Renewing},
		{"long names", answer(renew, reply, server1, plain, bomb(maxOption), bomb(maxOption), bomb(maxOption)), 20, Bound},
		{"a long option", answer(renew, reply, server1, plain, long, bomb(1000)), 0, Bound},
	} {
		before := *s.m
		var start, end runtime.MemStats
		runtime.ReadMemStats(&start)
		s.receive(c.message)
		runtime.ReadMemStats(&end)
		if mib := (end.TotalAlloc - start.TotalAlloc) >> 20; mib > c.mib || s.m.state != c.want {
			t.Errorf("%s: %d MiB, state %s", c.name, mib, s.m.state)
		}
		*s.m = before
	}
}

// Whatever bytes arrive, in whatever state: no panic, and the timers go on.
func FuzzReceive(f *testing.F) {
	to := &dhcpv6.Message{}
	f.Add(answer(to, adv, server1, plain, dhcpv6.OptPreference(255)), uint16(0))
	f.Add(answer(to, reply, server1, plain, &dhcpv6.OptionGeneric{OptionCode: dhcpv6.OptionRapidCommit}), uint16(3))
	f.Add(answer(to, reply, server2, ia(infinite, infinite, ip("2001:db8::50", infinite, infinite)), status(iana.StatusNotOnLink)), uint16(7))
	f.Add(answer(to, reply, server1, ia(0, 0, status(iana.StatusNoBinding)))[:50], uint16(9))
	f.Add(answer(to, reply, bytes.Repeat(server1, 60), plain), uint16(3))
	f.Fuzz(func(t *testing.T, b []byte, steps uint16) {
		s := newScript(t, nil)
		s.out = s.m.Up(s.now, steps%2 == 1)
		for range 1 + steps%64 {
			if s.run(time.Hour); s.m.Next() == dhcp.Forever {
				break
			}
			own := append([]byte{}, b...)
			if len(own) > 4 {
				copy(own[1:4], s.m.xid[:])
			}
			s.m.Receive(s.now, own, from)
			if l := s.m.lease; l != nil && (l.Expire <= s.now && l.Expire != 0 || l.Renew > l.Rebind && l.Rebind != dhcp.Forever) {
				t.Fatalf("lease %+v at %s", l, s.now)
			}
		}
	})
}
