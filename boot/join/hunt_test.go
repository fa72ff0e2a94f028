package join

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"reveille/boot/identity"
	"reveille/internal/synctest"
)

// hunting is a hunt over a fake network for controllers with the pin of ca.
func hunting(network *fakeNetwork, ca *identity.Authority, endpoints ...string) *hunt {
	return newHunt(network, identity.PinnedClientTLS(identity.PinOf(ca.Certificate), nil), endpoints)
}

func TestOneBadEndpointHoldsNobody(t *testing.T) {
	for _, tc := range []struct {
		name  string
		dial  func(context.Context) (net.Conn, error)
		limit time.Duration // until the good one behind it has answered
	}{
		{"refused", refuses(syscall.ECONNREFUSED), 0},
		{"no route", refuses(syscall.EHOSTUNREACH), 0},
		{"drops packets", dropsPackets, stagger},
		{"accepts and is silent", acceptsOnly, stagger},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ca := newCA(t)
				network, l := newFakeNetwork(), newPipeListener()
				defer newController(ca).serve(t, l).Close()
				network.set("10.0.0.1:7443", tc.dial)
				network.set("10.0.0.2:7443", l.dial)
				begun := time.Now()
				h := hunting(network, ca, "10.0.0.1:7443", "10.0.0.2:7443")
				conn, won := h.next(t.Context())
				if conn == nil || won.endpoint != "10.0.0.2:7443" {
					t.Fatalf("won %q, failed %v", won.endpoint, h.failed)
				}
				defer closeConn(conn)
				if took := time.Since(begun); took > tc.limit {
					t.Errorf("took %s, want at most %s", took, tc.limit)
				}
			})
		})
	}
}

// The field's worst list: each kind of fault before the one that works.
func TestHuntPassesEveryKindOfFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca, other := newCA(t), newCA(t)
		network, good, foreign := newFakeNetwork(), newPipeListener(), newPipeListener()
		defer newController(ca).serve(t, good).Close()
		defer newController(other).serve(t, foreign).Close()
		network.names["servfail.test"] = func(context.Context) ([]netip.Addr, error) {
			return nil, &net.DNSError{Err: "server misbehaving", Server: "10.0.2.3:53", IsTemporary: true}
		}
		network.names["silent.test"] = func(ctx context.Context) ([]netip.Addr, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		network.names["empty.test"] = func(context.Context) ([]netip.Addr, error) { return nil, nil }
		network.set("10.0.0.1:7443", acceptsOnly)
		network.set("10.0.0.2:7443", refuses(syscall.ECONNREFUSED))
		network.set("10.0.0.3:7443", foreign.dial)
		network.set("10.0.0.4:7443", dropsPackets)
		bad := []string{
			"absent.test:7443", "servfail.test:7443", "silent.test:7443", "empty.test:7443",
			"10.0.0.1:7443", "10.0.0.2:7443", "10.0.0.3:7443", "10.0.0.4:7443",
		}

		h := hunting(network, ca, bad...)
		if conn, _ := h.next(t.Context()); conn != nil {
			t.Fatal("a bad endpoint won")
		}
		var got []string
		for _, f := range h.failed {
			got = append(got, strings.ReplaceAll(f.Error(), identity.PinOf(other.Certificate).Short(), "sha256:other"))
		}
		slices.Sort(got)
		want := []string{
			"10.0.0.1:7443 TLS: no answer within 10s",
			"10.0.0.2:7443 connect: connection refused",
			"10.0.0.3:7443 TLS: verify peer: CA is not the one that cluster.ca pins: it is sha256:other, cluster.ca says " + identity.PinOf(ca.Certificate).Short(),
			"10.0.0.4:7443 connect: no answer within 10s",
			"absent.test:7443 look up: no such host (asked 10.0.2.3:53)",
			"empty.test:7443 look up: the name has no addresses",
			"servfail.test:7443 look up: server misbehaving (asked 10.0.2.3:53)",
			"silent.test:7443 look up: no answer within 10s",
		}
		if !slices.Equal(got, want) {
			t.Errorf("failures:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}

		network.set("10.0.0.5:7443", good.dial)
		begun := time.Now()
		conn, won := hunting(network, ca, append(bad, "10.0.0.5:7443")...).next(t.Context())
		if conn == nil || won.endpoint != "10.0.0.5:7443" {
			t.Fatalf("won %q", won.endpoint)
		}
		closeConn(conn)
		if took := time.Since(begun); took > 4*stagger {
			t.Errorf("took %s past four silent ones", took)
		}
	})
}

// A name's addresses are all dialled, families in turn.
func TestHuntAlternatesFamilies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newFakeNetwork()
		network.names["ctl.test"] = func(context.Context) ([]netip.Addr, error) {
			var out []netip.Addr
			for _, a := range []string{"10.0.0.1", "10.0.0.2", "::ffff:10.0.0.3", "fd00::1", "fd00::2"} {
				out = append(out, netip.MustParseAddr(a))
			}
			return out, nil
		}
		h := hunting(network, newCA(t), "ctl.test:7443")
		if conn, _ := h.next(t.Context()); conn != nil {
			t.Fatal("somebody answered")
		}
		want := []string{"10.0.0.1:7443", "[fd00::1]:7443", "10.0.0.2:7443", "[fd00::2]:7443", "10.0.0.3:7443"}
		if got := network.dials(); !slices.Equal(got, want) {
			t.Errorf("dialled %v, want %v", got, want)
		}
		if got, want := h.failed[1].Error(), "ctl.test:7443 (fd00::1) connect: network is unreachable"; got != want {
			t.Errorf("failure %q, want %q", got, want)
		}
	})
}

// What another's win cut short is tried again when that one turns out bad.
func TestHuntGoesOnAfterAWinner(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newCA(t)
		network, a, b := newFakeNetwork(), newPipeListener(), newPipeListener()
		defer newController(ca).serve(t, a).Close()
		defer newController(ca).serve(t, b).Close()
		network.set("10.0.0.1:7443", func(ctx context.Context) (net.Conn, error) { // the slow one
			if err := sleep(ctx, 2*stagger); err != nil {
				return nil, err
			}
			return a.dial(ctx)
		})
		network.set("10.0.0.2:7443", b.dial)
		h := hunting(network, ca, "10.0.0.1:7443", "10.0.0.2:7443")
		var order []string
		for {
			conn, won := h.next(t.Context())
			if conn == nil {
				break
			}
			closeConn(conn)
			order = append(order, won.endpoint)
		}
		if want := []string{"10.0.0.2:7443", "10.0.0.1:7443"}; !slices.Equal(order, want) {
			t.Errorf("won in order %v, want %v", order, want)
		}
		if len(h.failed) > 0 {
			t.Errorf("failed: %v", h.failed)
		}
	})
}

// A caller that gives up leaves nothing running: the bubble would not end.
func TestHuntEndsWithItsContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		network := newFakeNetwork()
		var endpoints []string
		for i := range 10 {
			e := fmt.Sprintf("10.0.0.%d:7443", i+1)
			network.set(e, dropsPackets)
			endpoints = append(endpoints, e)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		begun := time.Now()
		h := hunting(network, newCA(t), endpoints...)
		conn, _ := h.next(ctx)
		if conn != nil || time.Since(begun) != time.Second || len(h.failed) > 0 {
			t.Errorf("conn %v after %s, failed %v", conn, time.Since(begun), h.failed)
		}
	})
}

// Two endpoints of the same controller, or a name that resolves to a given
// address, must not confuse each other.
func TestFailureNamesWhatIsNew(t *testing.T) {
	addr := netip.MustParseAddrPort("[fd00::10]:7443")
	err := errors.New("boom")
	for want, f := range map[string]*Failure{
		"[fd00::10]:7443 connect: boom":           {Endpoint: "[fd00::10]:7443", Address: addr, Step: StepConnect, Err: err},
		"c.test:7443 (fd00::10) TLS: boom":        {Endpoint: "c.test:7443", Address: addr, Step: StepTLS, Err: err},
		"c.test:7443 look up: boom":               {Endpoint: "c.test:7443", Step: StepLookup, Err: err},
		"[fd00::10]:7443 join: boom":              {Endpoint: "[fd00::10]:7443", Address: addr, Step: StepCall, Err: &annotated{"join", err}},
		"[fd00::10]:7443 connect: host went away": {Endpoint: "[fd00::10]:7443", Address: addr, Step: StepConnect, Err: errors.New("connect: host went away")},
	} {
		if got := f.Error(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
