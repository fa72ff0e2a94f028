//go:build guest

package netcfg

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// TestKernelLeaseOnVLANOfBond: a lease, and what a router says, on a vlan of a
// bond, while the node forwards; and again by an agent that starts anew, which
// writes nothing but what time has changed.
func TestKernelLeaseOnVLANOfBond(t *testing.T) {
	other := newNamespace(t)
	const wish = `
ethernets: {eth0: {}, eth1: {}}
bonds: {bond0: {interfaces: [eth0, eth1], parameters: {mode: active-backup, mii-monitor-interval: 100}}}
vlans: {v42: {id: 42, link: bond0, dhcp4: true, accept-ra: true}}`
	resolv, leases := t.TempDir()+"/resolv.conf", t.TempDir()
	opt := Options{ResolvConf: resolv, Leases: leases, Sysctls: []Sysctl{{Key: "net.ipv6.conf.all.forwarding", Value: "1"}}}
	watchWith(t, wish, opt, func(w *watched) error {
		there := func() error {
			return w.WaitFor(w.ctx, func(s Status) bool {
				return s.Converged && slices.Contains(s.Addresses, netip.MustParseAddr("10.9.0.50")) &&
					slices.ContainsFunc(s.Addresses, netip.MustParsePrefix("fd00:9::/64").Contains)
			})
		}
		return first(
			func() error { return cable(t, w, other) },
			func() error {
				return other.far(t, `
bridges: {br: {interfaces: [peer-eth0, peer-eth1], parameters: {stp: false}}}
vlans: {far42: {id: 42, link: br, addresses: [10.9.0.1/24], link-local: [ipv6]}}`)
			},
			func() error { (&scripted{t: t}).serve(other, "far42"); return nil },
			func() error { other.advertise(t, "far42", routerWord{"fd00:9::/64", "", long, long}); return nil },
			there,
			func() error { return routesOf(w, "v42") },
			func() error { w.mu.Lock(); defer w.mu.Unlock(); w.ops = nil; return nil },
			func() error { return w.restart(wish, opt) },
			there,
			func() error {
				w.mu.Lock()
				defer w.mu.Unlock()
				for _, op := range w.ops {
					if op != "replace address 10.9.0.50/24 dev v42" {
						return fmt.Errorf("a new agent did %q", w.ops)
					}
				}
				return nil
			},
		)
	})
}

// routesOf wants the lease's default route, and the router's.
func routesOf(w *watched, link string) error {
	have, err := w.lab.Observe(w.ctx)
	if err != nil {
		return err
	}
	var lease, router bool
	for _, r := range have.Routes {
		d := have.named(link)
		lease = lease || r.Link == d.Index && r.Proto == ownProto && r.Via == netip.MustParseAddr("10.9.0.1")
		router = router || r.Link == d.Index && r.Proto == protoRA && r.To.Bits() == 0
	}
	if !lease || !router {
		return fmt.Errorf("default routes: by the lease %t, by the router %t: %+v", lease, router, have.Routes)
	}
	return nil
}

// TestKernelLeaseBesidePort: another port of ours in the same network, where the
// kernel answers for every address that the machine has, is no conflict.
func TestKernelLeaseBesidePort(t *testing.T) {
	other := newNamespace(t)
	watchFor(t, time.Minute, `ethernets: {eth0: {dhcp4: true}, eth1: {addresses: [10.9.0.7/24]}}`, func(w *watched) error {
		return first(
			func() error { return cable(t, w, other) },
			func() error {
				return other.far(t, `bridges: {br: {interfaces: [peer-eth0, peer-eth1], parameters: {stp: false}, addresses: [10.9.0.1/24]}}`)
			},
			func() error { (&scripted{t: t}).serve(other, "br"); return nil },
			func() error {
				return w.WaitFor(w.ctx, func(s Status) bool { return len(s.Leases) == 1 && s.Leases[0].State == "bound" })
			},
			func() error {
				w.mu.Lock()
				defer w.mu.Unlock()
				if slices.Contains(w.ops, "delete address 10.9.0.50/24 dev eth0") {
					return errors.New("declined what our own port answered for")
				}
				return nil
			},
		)
	})
}
