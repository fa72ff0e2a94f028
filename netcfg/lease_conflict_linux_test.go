package netcfg

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// TestKernelLeaseConflict: a server gives out what another machine has, which
// that machine says at once, or only while we use it already. It is declined
// and not on the link any more, and the status says whose it is.
func TestKernelLeaseConflict(t *testing.T) {
	for _, late := range []bool{false, true} {
		t.Run(fmt.Sprintf("late %t", late), func(t *testing.T) {
			other := newNamespace(t)
			declined := make(chan string, 1)
			server := &scripted{t: t, heard: func(m *dhcpv4.DHCPv4) {
				if m.MessageType() == dhcpv4.MessageTypeDecline {
					declined <- m.RequestedIPAddress().String()
				}
			}}
			holds := func() error { other.do(t, addr("peer-eth0", "10.9.0.50/32")); return nil }
			var holder string
			watch(t, `ethernets: {eth0: {dhcp4: true}}`, func(w *watched) error {
				begin := []func() error{
					func() error { return w.lab.AddNIC("eth0", "02:00:00:00:00:01") },
					func() error { w.lab.move(t, "eth0", other); return nil },
					func() error { other.do(t, addr("peer-eth0", "10.9.0.1/24")); return nil },
					func() error {
						mac := make(chan string)
						other.run <- func() { mac <- macOf("peer-eth0") }
						holder = <-mac
						return nil
					},
				}
				if !late {
					begin = append(begin, holds)
				}
				begin = append(begin, func() error { server.serve(other, "peer-eth0"); return nil })
				if late {
					begin = append(begin, func() error { return w.until(1, "add address 10.9.0.50/24") }, holds)
				}
				return first(append(begin,
					func() error {
						select {
						case a := <-declined:
							if a != "10.9.0.50" {
								return fmt.Errorf("declined %s", a)
							}
							return nil
						case <-w.ctx.Done():
							return fmt.Errorf("nothing was declined: %w", w.ctx.Err())
						}
					},
					func() error {
						want := "DHCPv4: 10.9.0.50 of 10.9.0.1 is in use by " + holder
						return w.WaitFor(w.ctx, func(s Status) bool {
							return s.Converged && len(s.Addresses) == 0 && slices.ContainsFunc(s.Waits, func(w Wait) bool { return w.Reason == want })
						})
					},
				)...)
			})
		})
	}
}

// TestKernelKeepsADuplicateLease: an IPv6 address of a lease that another
// machine has is still there, and marked, after its check: so the server hears
// of it. One that passed its check ends with its lease.
func TestKernelKeepsADuplicateLease(t *testing.T) {
	l := newKernelLab(t).(kernelLab)
	other := newNamespace(t)
	if err := l.AddNIC("eth0", "02:00:00:00:00:01"); err != nil {
		t.Fatal(err)
	}
	l.move(t, "eth0", other)
	scenario{start: ok(up("eth0"))}.prepare(t, l)
	other.do(t, addr("peer-eth0", "fd00:9::50/64"))
	time.Sleep(3 * time.Second) // its own check
	life := lifetime{600, 1200}
	cfg := compileWish(t, `ethernets: {eth0: {addresses: ["fd00:9::50/128", "fd00:9::51/128"]}}`)
	for i := range cfg.links[0].addresses {
		cfg.links[0].addresses[i].lifetime = life
	}
	r := New(cfg, quiet(), Options{})
	ends, marked := false, false
	for deadline := time.Now().Add(20 * time.Second); !(ends && marked); time.Sleep(100 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("ends with its lease: %v; marked: %v", ends, marked)
		}
		if _, err := r.passes(t.Context(), l, &Report{}); err != nil {
			t.Fatal(err)
		}
		have, err := l.Observe(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range have.Addresses {
			switch a.Prefix.Addr().String() {
			case "fd00:9::50":
				marked = a.DADFailed
			case "fd00:9::51":
				ends = life.near(a.left())
			}
		}
	}
}
