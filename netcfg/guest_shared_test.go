//go:build guest || bench

package netcfg

import (
	"errors"
	"net"
	"net/netip"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// advertisement is what a router says (RFC 4861, section 4.2): a prefix for
// addresses, itself as the default router, and a name server (RFC 8106).
func advertisement() []byte {
	prefix, dns := netip.MustParseAddr("fd00:9::").As16(), netip.MustParseAddr("fd00:9::53").As16()
	ra := []byte{134, 0, 0, 0, 64, 0, 0x23, 0x28, 0, 0, 0, 0, 0, 0, 0, 0} // a lifetime of 9000 s
	ra = append(ra, 3, 4, 64, 0xc0, 0, 0, 0x23, 0x28, 0, 0, 0x23, 0x28, 0, 0, 0, 0)
	ra = append(ra, prefix[:]...)
	ra = append(ra, 25, 3, 0, 0, 0, 0, 0x23, 0x28)
	return append(ra, dns[:]...)
}

// advertise is a router on a link of the other machine that answers each
// solicitation.
func (n *namespace) advertise(t *testing.T, link string) {
	t.Helper()
	conn := n.listen(t, "ip6:ipv6-icmp", "::", link, func(fd int) error {
		at, err := net.InterfaceByName(link)
		if err != nil {
			return err
		}
		routers := &unix.IPv6Mreq{Multiaddr: [16]byte{0: 0xff, 1: 2, 15: 2}, Interface: uint32(at.Index)}
		if err := unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, routers); err != nil {
			return err
		}
		// RFC 4861, section 6.1.2: what has made fewer hops came from afar.
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255)
	})
	go func() {
		buf := make([]byte, 1500)
		for {
			k, _, err := conn.ReadFrom(buf)
			if err != nil {
				return // closed by the test
			}
			if k == 0 || buf[0] != 133 {
				continue
			}
			_, err = conn.WriteTo(advertisement(), &net.IPAddr{IP: net.IPv6linklocalallnodes})
			if err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) { // its own address may still be checked
				t.Errorf("advertise: %v", err)
			}
		}
	}()
}

// in runs f on a thread in our namespace that ends with it.
func (w *watched) in(f func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		if err := unix.Setns(w.ns, unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- f()
	}()
	return <-done
}
