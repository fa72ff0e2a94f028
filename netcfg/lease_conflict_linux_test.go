package netcfg

import (
	"fmt"
	"slices"
	"testing"

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
