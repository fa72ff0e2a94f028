//go:build bench

package netcfg

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// carrierRuns is how often each is measured; what counts is the middle one.
const carrierRuns = 5

// TestPeersCarrier measures the time from carrier to an address that can be
// used, as this package and systemd-networkd have it in the same guest: one of
// the document's, one by DHCP from a server that answers at once, one by a
// router that does.
func TestPeersCarrier(t *testing.T) {
	for _, c := range []struct{ name, wish, network, within string }{
		{"static", `ethernets: {eth0: {addresses: [10.9.0.50/24]}}`, "Address=10.9.0.50/24\nIPv6AcceptRA=no\n", "10.9.0.0/24"},
		{"DHCPv4", `ethernets: {eth0: {dhcp4: true}}`, "DHCP=ipv4\nIPv6AcceptRA=no\n", "10.9.0.0/24"},
		{"router", `ethernets: {eth0: {accept-ra: true}}`, "IPv6AcceptRA=yes\n", "fd00:9::/64"},
	} {
		t.Run(c.name, func(t *testing.T) {
			within := netip.MustParsePrefix(c.within)
			middle(t, "reveille", func() time.Duration {
				return carrierTo(t, within, func(t *testing.T) (stop func()) {
					r := New(compileWish(t, c.wish), quiet(), Options{})
					ctx, cancel := context.WithCancel(bg)
					done := make(chan error)
					w := &watched{t: t, ns: thisNamespace(t)}
					go func() { done <- w.in(func() error { return r.Run(ctx) }) }()
					return func() {
						cancel()
						if err := <-done; err != nil {
							t.Error(err)
						}
					}
				})
			})
			middle(t, "networkd", func() time.Duration {
				return carrierTo(t, within, func(t *testing.T) (stop func()) {
					networkdTree(t)
					text := "[Match]\nName=eth0\n[Network]\nLLDP=no\n" + c.network
					if err := os.WriteFile(filepath.Join(peers, "run/systemd/network/eth0.network"), []byte(text), 0o644); err != nil {
						t.Fatal(err)
					}
					return startNetworkd(t)
				})
			})
		})
	}
}

func middle(t *testing.T, who string, run func() time.Duration) {
	var all []time.Duration
	for range carrierRuns {
		all = append(all, run())
	}
	slices.Sort(all)
	t.Logf("%s: %d ms (%d to %d)", who, all[len(all)/2].Milliseconds(), all[0].Milliseconds(), all[len(all)-1].Milliseconds())
}

// carrierTo is how long after carrier eth0 has an address within a prefix that
// is no longer tentative. Whoever cares for it has had two seconds before.
func carrierTo(t *testing.T, within netip.Prefix, start func(*testing.T) (stop func())) (took time.Duration) {
	t.Run("run", func(t *testing.T) {
		l := newDHCPLab(t, "10.9.0.1/24", "fd00:9::1/64")
		(&scripted{t: t}).serve(l.other, "peer-eth0")
		l.other.advertise(t, "peer-eth0", routerWord{"fd00:9::/64", "", long, long})
		l.other.do(t, downOp("peer-eth0"))
		stop := start(t)
		defer stop()
		time.Sleep(2 * time.Second)
		l.other.do(t, up("peer-eth0"))
		began := time.Now()
		for ; ; time.Sleep(2 * time.Millisecond) {
			have, err := l.Observe(bg)
			if err != nil {
				t.Fatal(err)
			}
			if slices.ContainsFunc(have.Addresses, func(a AddressState) bool {
				return a.Link == have.named("eth0").Index && within.Contains(a.Prefix.Addr()) && !a.Tentative
			}) {
				took = time.Since(began)
				return
			}
			if time.Since(began) > time.Minute {
				t.Fatalf("no address in %s after a minute", within)
			}
		}
	})
	return took
}

func thisNamespace(t *testing.T) int {
	fd, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { unix.Close(fd) })
	return fd
}
