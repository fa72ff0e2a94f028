package netcfg

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"

	"reveille/internal/synctest"
	"reveille/netcfg/dhcp4"
)

// dhcpStage is a reconciler on the fake kernel, beside a DHCPv4 server. The
// kernel's addresses grow old by the test's clock.
type dhcpStage struct {
	*stage
	server *fakeServer
	began  time.Time
	aged   time.Time
	looks  int // at the network
	ops    []string
}

func newDHCPStage(t *testing.T, wish string, store leaseStore) *dhcpStage {
	s := &dhcpStage{stage: newStage(t, wish), began: time.Now(), aged: time.Now()}
	s.server = &fakeServer{lease: 10 * time.Minute, address: "10.0.0.50"}
	s.opt.Applied = func(op Op) { s.ops = append(s.ops, op.String()) }
	s.open = func() (network, error) { return s, nil }
	s.restart(store)
	return s
}

// restart makes the reconciler forget what a new process would not know.
func (s *dhcpStage) restart(store leaseStore) {
	s.leases = newKeeper(s.cfg, s.Reconciler.log, leaseEnv{
		now:      func() time.Duration { return time.Since(s.began) + time.Hour },
		listen4:  s.server.listen,
		hostname: func() string { return "n1" },
		machine:  func() string { return "" },
	}, store)
}

func (s *dhcpStage) Observe(ctx context.Context) (State, error) {
	s.mu.Lock()
	s.looks++
	whole := time.Since(s.aged) / time.Second
	s.aged = s.aged.Add(whole * time.Second)
	s.fake.state.Addresses = slices.DeleteFunc(s.fake.state.Addresses, func(a AddressState) bool {
		return a.Dynamic && a.Valid <= uint32(whole)
	})
	for i := range s.fake.state.Addresses {
		if a := &s.fake.state.Addresses[i]; a.Dynamic {
			a.Preferred, a.Valid = a.Preferred-uint32(whole), a.Valid-uint32(whole)
		}
	}
	s.mu.Unlock()
	return s.stage.Observe(ctx)
}

// did is what was done since the last call.
func (s *dhcpStage) did() string {
	var out string
	s.quietly(func() { out, s.ops = strings.Join(s.ops, "\n"), nil })
	return out
}

// observed is how often the network was read so far.
func (s *dhcpStage) observed() (n int) {
	s.quietly(func() { n = s.looks })
	return n
}

// asked is what the server heard since the last call.
func (s *dhcpStage) asked() (heard string) {
	synctest.Wait()
	s.server.set(func() { heard, s.server.heard = fmt.Sprint(s.server.heard), nil })
	return heard
}

// sockets is how many were opened so far.
func (s *dhcpStage) sockets() (n int) {
	synctest.Wait()
	s.server.set(func() { n = s.server.links })
	return n
}

// logged is the log so far.
func (s *dhcpStage) logged() (text string) {
	s.quietly(func() { text = s.log.String() })
	return text
}

// fakeServer grants one address.
type fakeServer struct {
	mu      sync.Mutex
	silent  bool
	lease   time.Duration
	address string
	heard   []string // messages, as "REQUEST unicast"
	links   int      // opened so far

	neighbours time.Duration // from one of their ARP packets to the next, 0 for none
}

func (f *fakeServer) set(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

type fakeLink struct {
	*fakeServer
	answers chan []byte
}

func (f *fakeServer) listen(int, string) (dhcp4.Link, error) {
	f.set(func() { f.links++ })
	return &fakeLink{f, make(chan []byte, 16)}, nil
}

func (l *fakeLink) Broadcast(message []byte, _ netip.Addr) error {
	return l.handle(message, "broadcast")
}
func (l *fakeLink) Unicast(message []byte, _, _ netip.Addr) error {
	return l.handle(message, "unicast")
}
func (l *fakeLink) ARP([6]byte, netip.Addr, netip.Addr) error { return nil }
func (l *fakeLink) Close() error                              { close(l.answers); return nil }
func (l *fakeLink) Receive(message func([]byte), arp func([6]byte, netip.Addr, netip.Addr)) {
	var chatter <-chan time.Time
	if l.neighbours > 0 {
		ticker := time.NewTicker(l.neighbours)
		defer ticker.Stop()
		chatter = ticker.C
	}
	for {
		select {
		case b, open := <-l.answers:
			if !open {
				return
			}
			message(b)
		case <-chatter:
			arp([6]byte{2, 9, 9}, netip.MustParseAddr("10.0.0.7"), netip.MustParseAddr("10.0.0.8"))
		}
	}
}

func (l *fakeLink) handle(message []byte, how string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	d, err := dhcpv4.FromBytes(message)
	if err != nil {
		return err
	}
	l.heard = append(l.heard, d.MessageType().String()+" "+how)
	if l.silent {
		return nil
	}
	kind := dhcpv4.MessageTypeAck
	if d.MessageType() == dhcpv4.MessageTypeDiscover {
		kind = dhcpv4.MessageTypeOffer
	}
	server := net.IPv4(10, 0, 0, 1)
	answer, err := dhcpv4.NewReplyFromRequest(d, dhcpv4.WithMessageType(kind), dhcpv4.WithYourIP(net.ParseIP(l.address)),
		dhcpv4.WithNetmask(net.CIDRMask(24, 32)), dhcpv4.WithLeaseTime(uint32(l.lease/time.Second)),
		dhcpv4.WithServerIP(server), dhcpv4.WithOption(dhcpv4.OptServerIdentifier(server)), dhcpv4.WithRouter(server))
	if err == nil {
		l.answers <- answer.ToBytes()
	}
	return err
}

const wishDHCP = `ethernets: {eth0: {dhcp4: true}}`

func (s *dhcpStage) plug(t *testing.T) {
	t.Helper()
	if err := s.fake.AddNIC("eth0", "02:00:00:00:00:00"); err != nil {
		t.Fatal(err)
	}
}

// A lease comes, goes on for hours by lifetimes alone, and is gone with its
// server: nothing else is ever written.
func TestLeaseLife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDHCPStage(t, wishDHCP, leaseStore{})
		s.plug(t)
		s.start(t)
		if err := s.WaitFor(t.Context(), func(st Status) bool { return st.Converged && st.Ready() }); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(s.began); waited > time.Second {
			t.Errorf("ready after %s", waited)
		}
		const want = "bring eth0 up\nadd address 10.0.0.50/24 dev eth0 leased\nadd route default via 10.0.0.1 dev eth0 src 10.0.0.50 metric 100"
		if got := s.did(); got != want {
			t.Errorf("did\n%s\nwant\n%s", got, want)
		}
		l := s.Status().Leases[0]
		if l.Server != "10.0.0.1" || l.State != "watching" || len(l.Addresses) != 1 || time.Until(l.Expire).Round(time.Minute) != 10*time.Minute {
			t.Errorf("status %+v", l)
		}
		if got := l.String(); !strings.HasPrefix(got, "DHCPv4 10.0.0.50/24 from 10.0.0.1 until 2000-01-01T00:10:0") {
			t.Errorf("status %s", got)
		}

		time.Sleep(3 * time.Hour)
		for _, op := range strings.Split(s.did(), "\n") {
			if op != "replace address 10.0.0.50/24 dev eth0 leased" {
				t.Errorf("while the lease went on: %s", op)
			}
		}

		s.server.set(func() { s.server.silent = true })
		time.Sleep(11 * time.Minute)
		if got := s.did(); strings.Contains(got, "add ") || s.Status().Ready() {
			t.Errorf("after the lease's end: ready %v, did\n%s", s.Status().Ready(), got)
		}
		waits := s.Status().Waits
		if len(waits) != 1 || !strings.HasPrefix(waits[0].String(), "waiting for eth0: DHCPv4: the lease of 10.0.0.50 from 10.0.0.1 ended without a renewal, attempt ") {
			t.Errorf("waits %v", waits)
		}
		s.server.set(func() { s.server.silent = false })
		time.Sleep(2 * time.Minute)
		if !s.Status().Ready() {
			t.Error("no lease from a server that is back")
		}
		for line, times := range map[string]int{"eth0: leased 10.0.0.50/24 from 10.0.0.1 for 10m0s": 2, "eth0: lost 10.0.0.50/24 from 10.0.0.1: ": 1, "replace address": 0} {
			if strings.Count(s.logged(), line) != times {
				t.Errorf("want %d times %q in\n%s", times, line, s.logged())
			}
		}
	})
}

// The switch passes nothing for 75 s: the wait is named, with what changes,
// and logged once.
func TestLeaseAfterSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDHCPStage(t, wishDHCP, leaseStore{})
		s.plug(t)
		s.server.silent = true
		s.start(t)
		time.Sleep(2 * time.Second)
		if w := s.Status().Waits; len(w) != 1 || !w[0].Passing {
			t.Errorf("at first: %v", w)
		}
		time.Sleep(72 * time.Second)
		w := s.Status().Waits
		if len(w) != 1 || !strings.HasPrefix(w[0].Text(), "eth0: DHCPv4: no answer, attempt ") || !strings.Contains(w[0].Detail, " in ") || w[0].Passing {
			t.Errorf("waits %v", w)
		}
		s.server.set(func() { s.server.silent = false })
		if err := s.WaitFor(t.Context(), Status.Ready); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(s.began); waited > 75*time.Second+20*time.Second {
			t.Errorf("ready after %s", waited)
		}
		if n := strings.Count(s.logged(), "no answer"); n != 1 {
			t.Errorf("said %d times:\n%s", n, s.logged())
		}
	})
}

// The agent dies and comes back: its address stays, nothing is written, the
// server is not asked before the renewal is due.
func TestLeaseSurvivesRestart(t *testing.T) {
	store := leaseStore{dir: t.TempDir(), boot: "this"}
	synctest.Test(t, func(t *testing.T) {
		s := newDHCPStage(t, wishDHCP, store)
		s.plug(t)
		if _, err := s.Converge(t.Context()); err != nil || !s.Status().Ready() {
			t.Fatalf("%v, %+v", err, s.Status())
		}
		s.did()
		s.asked()
		for range 3 {
			time.Sleep(time.Minute)
			s.restart(store)
			if report, err := s.Converge(t.Context()); err != nil || report.Writes != 0 || !s.Status().Ready() {
				t.Errorf("%v, did %s", err, s.did())
			}
		}
		if got := s.asked(); got != "[]" {
			t.Errorf("asked %s", got)
		}
		s.restart(store)
		s.start(t)
		time.Sleep(3 * time.Minute)
		if got := s.asked(); got != "[REQUEST unicast]" || s.did() != "replace address 10.0.0.50/24 dev eth0 leased" {
			t.Errorf("asked %s", got)
		}
	})
}

// Of another boot, another client, or broken: the server is asked, and no more.
func TestUselessSavedLease(t *testing.T) {
	store := leaseStore{dir: t.TempDir(), boot: "this"}
	synctest.Test(t, func(t *testing.T) {
		s := newDHCPStage(t, wishDHCP, store)
		s.plug(t)
		if _, err := s.Converge(t.Context()); err != nil {
			t.Fatal(err)
		}
		store.boot = "next"
		s.fake.state.Addresses = nil
		s.asked()
		s.restart(store)
		_, err := s.Converge(t.Context())
		if got := s.asked(); err != nil || got != "[DISCOVER broadcast REQUEST broadcast]" {
			t.Errorf("%v, asked %s", err, got)
		}
	})
}

// The cable is pulled and plugged in again, and the NIC replaced.
func TestLeaseFollowsTheLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDHCPStage(t, wishDHCP, leaseStore{})
		s.plug(t)
		s.start(t)
		ready := func(st Status) bool { return st.Converged && st.Ready() }
		if err := s.WaitFor(t.Context(), ready); err != nil {
			t.Fatal(err)
		}
		s.happen(func() { s.fake.unplugged = true })
		time.Sleep(time.Minute)
		if st := s.Status(); len(st.Links[0].Addresses) == 0 {
			t.Errorf("without carrier the lease is gone: %+v", st)
		}
		s.asked()
		s.happen(func() { s.fake.unplugged = false })
		time.Sleep(time.Second)
		if got := s.asked(); got != "[REQUEST broadcast]" || s.sockets() != 2 || !s.Status().Ready() {
			t.Errorf("asked %s on socket %d", got, s.sockets())
		}
		s.happen(func() {
			s.fake.state = State{}
			if err := s.fake.AddNIC("eth0", "02:00:00:00:00:07"); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Second)
		if !s.Status().Ready() || s.sockets() != 3 {
			t.Errorf("on a new NIC: %+v", s.Status())
		}
	})
}

// Neighbours look for each other all day: no reason to read the network.
func TestNeighboursWakeNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDHCPStage(t, wishDHCP, leaseStore{})
		s.server.neighbours = 50 * time.Millisecond
		s.plug(t)
		s.start(t)
		time.Sleep(30 * time.Second)
		before := s.observed()
		time.Sleep(time.Minute)
		if n := s.observed() - before; n > 3 || s.Status().Leases[0].State != "bound" {
			t.Errorf("read the network %d times in a minute", n)
		}
	})
}
