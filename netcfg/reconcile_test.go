package netcfg

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"reveille/internal/synctest"
)

// stage is a reconciler on the fake, with events sent by hand.
type stage struct {
	*Reconciler
	fake   *fake
	events chan struct{}
	log    transcript
	mu     sync.Mutex
	broken error // what Observe returns
}

// transcript is a log that can be read while it is written.
type transcript struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *transcript) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *transcript) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func (s *stage) Observe(ctx context.Context) (State, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.broken != nil {
		return State{}, s.broken
	}
	return s.fake.Observe(ctx)
}

func (s *stage) Apply(ctx context.Context, op Op) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.fake.Apply(ctx, op)
}

func (s *stage) Close() error { return nil }

func (s *stage) C() <-chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.events
}

func newStage(t *testing.T, wish string) *stage {
	s := &stage{fake: newFake(t).(*fake), events: make(chan struct{}, 1)}
	s.Reconciler = New(compileWish(t, wish), slog.New(slog.NewTextHandler(&s.log, nil)), Options{})
	s.open = func() (network, error) { return s, nil }
	s.watch = func() (events, error) { return s, nil }
	return s
}

// start runs the reconciler until the test ends.
func (s *stage) start(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// quietly changes the fake while the reconciler is idle.
func (s *stage) quietly(change func()) {
	synctest.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	change()
}

// happen changes it and says so.
func (s *stage) happen(change func()) {
	s.quietly(change)
	s.events <- struct{}{}
}

// writes is how many operations there were so far.
func (s *stage) writes() (n int) {
	s.quietly(func() { n = s.fake.applied })
	return n
}

func (s *stage) show() (text string) {
	s.quietly(func() { text = show(s.fake.state) })
	return text
}

func TestHotPlug(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, `bonds: {bond0: {interfaces: [eth0, eth1], parameters: {mode: active-backup}, addresses: [10.0.0.1/24]}}`)
		plug := func(name, mac string) {
			if err := s.fake.AddNIC(name, mac); err != nil {
				t.Error(err)
			}
		}
		plug("eth0", "02:00:00:00:00:00")
		report, err := s.Converge(t.Context())
		if err != nil || len(report.Waits) != 1 || report.Waits[0].String() != "waiting for eth1: no interface named eth1" {
			t.Fatalf("%v, %v", report.Waits, err)
		}
		s.start(t)
		s.happen(func() { plug("eth1", "02:00:00:00:00:01") })
		err = s.WaitFor(t.Context(), func(st Status) bool { return st.Converged && len(st.Waits) == 0 })
		if err != nil {
			t.Fatal(err)
		}
		status := s.Status()
		if p := status.Links[0].Ports; !p[0].Enslaved || !p[1].Enslaved {
			t.Errorf("ports %+v", p)
		}
		if want := []netip.Addr{netip.MustParseAddr("10.0.0.1")}; !slices.Equal(status.Addresses, want) {
			t.Errorf("addresses %v", status.Addresses)
		}
		writes := s.writes()
		time.Sleep(time.Hour) // of the bubble's time: sixty looks
		if n := s.writes(); n != writes {
			t.Errorf("%d writes while nothing happened", n-writes)
		}
		for _, line := range []string{"bond0 up: active-backup, 1 of 2 ports; eth1: no interface named eth1", "bond0 up: active-backup, 2 of 2 ports, 10.0.0.1/24"} {
			if strings.Count(s.log.String(), line) != 1 {
				t.Errorf("want once %q in\n%s", line, s.log.String())
			}
		}
	})
}

func TestDriftIsRepaired(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, `ethernets: {eth0: {addresses: [10.0.0.1/24], routes: [{to: default, via: 10.0.0.254}]}}`)
		if err := s.fake.AddNIC("eth0", "02:00:00:00:00:00"); err != nil {
			t.Fatal(err)
		}
		s.start(t)
		s.happen(func() { s.fake.down(s.fake.state.named("eth0")) })
		time.Sleep(time.Second)
		if got := s.show(); !strings.Contains(got, "eth0 default via 10.0.0.254") {
			t.Errorf("after an event:%s", got)
		}
		s.quietly(func() { s.fake.state.Addresses = nil })
		time.Sleep(lookAgain + time.Second)
		if got := s.show(); !strings.Contains(got, "eth0 10.0.0.1/24") {
			t.Errorf("without an event:%s", got)
		}
	})
}

// A failed duplicate check is retried at once, then after 10 s, 20 s, ...; the
// status names it, and IPv4 works all the time.
func TestDuplicateAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, `ethernets: {eth0: {addresses: [10.0.0.1/24, "fd00::1/64"]}}`)
		if err := s.fake.AddNIC("eth0", "02:00:00:00:00:00"); err != nil {
			t.Fatal(err)
		}
		fail := func() {
			for i := range s.fake.state.Addresses {
				if a := &s.fake.state.Addresses[i]; a.Prefix.Addr() == netip.MustParseAddr("fd00::1") {
					a.Tentative, a.DADFailed = true, true
				}
			}
		}
		s.start(t)
		synctest.Wait()
		start := time.Now()
		var tries []time.Duration
		before := 0
		for time.Since(start) < 3*time.Minute {
			s.happen(fail)
			time.Sleep(time.Second)
			if n := s.writes(); n != before {
				tries = append(tries, time.Since(start).Round(10*time.Second))
				before = n
			}
			st := s.Status()
			if !slices.Contains(st.Addresses, netip.MustParseAddr("10.0.0.1")) {
				t.Fatalf("IPv4 is gone: %v", st.Addresses)
			}
		}
		want := []time.Duration{0, 10 * time.Second, 30 * time.Second, 70 * time.Second, 150 * time.Second}
		if len(tries) < 4 || len(tries) > 6 {
			t.Errorf("tried at %v, want about %v", tries, want)
		}
		st := s.Status()
		if st.Links[0].Addresses[1].State != "dadfailed" && st.Links[0].Addresses[1].State != "tentative" {
			t.Errorf("status %+v", st.Links[0])
		}
		if !strings.Contains(s.log.String(), "another machine has fd00::1") {
			t.Errorf("log:\n%s", s.log.String())
		}
	})
}

// Every failure is said with what happens next, and none ends the loop.
func TestRunSurvivesErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStage(t, `ethernets: {eth0: {addresses: [10.0.0.1/24]}}`)
		if err := s.fake.AddNIC("eth0", "02:00:00:00:00:00"); err != nil {
			t.Fatal(err)
		}
		s.broken = errors.New("list links: no buffer space available")
		s.start(t)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if n := strings.Count(s.log.String(), "no buffer space available, next try in "); n < 3 || n > 8 {
			t.Errorf("%d tries in 20 s:\n%s", n, s.log.String())
		}
		s.quietly(func() {
			s.broken = nil
			close(s.events) // the stream breaks as well, once
			s.events = make(chan struct{}, 1)
		})
		if err := s.WaitFor(t.Context(), func(st Status) bool { return st.Converged }); err != nil {
			t.Fatal(err)
		}
	})
}

func TestWaitForEndsWithItsContext(t *testing.T) {
	s := newStage(t, `ethernets: {eth0: {}}`)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := s.WaitFor(ctx, Status.Ready); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// A route whose source this machine does not have is no success, and says so;
// one whose source is still checked passes.
func TestRouteWithoutItsSource(t *testing.T) {
	f := newFake(t).(*fake)
	if err := f.AddNIC("eth0", "02:00:00:00:00:00"); err != nil {
		t.Fatal(err)
	}
	r := New(compileWish(t, `ethernets: {eth0: {addresses: [10.0.0.9/24, "fd00::9/64"], routes: [
  {to: default, via: 10.0.0.1, from: 10.0.0.99}, {to: "fd01::/16", via: "fd00::1", from: "fd00::9"}]}}`), quiet(), Options{})
	if _, err := r.passes(t.Context(), f, &Report{}); err != nil {
		t.Fatal(err)
	}
	got := map[string]bool{}
	for _, w := range r.Status().Waits {
		got[w.Text()] = w.Passing
	}
	want := map[string]bool{
		"eth0: the route to default via 10.0.0.1 needs the address 10.0.0.99, which this machine does not have": false,
		"eth0: the route to fd01::/16 via fd00::1 needs the address fd00::9":                                    true,
		"eth0: fd00::9 is not yet checked for duplicates":                                                       true,
	}
	if !maps.Equal(got, want) {
		t.Errorf("waits %v", got)
	}
}
