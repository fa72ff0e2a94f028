package netcfg

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"golang.org/x/sys/unix"
)

// Neighbour discovery messages of our own (RFC 4861, 4.1 to 4.4): what the
// kernel asks only when a link comes up, and what it does not tell.

const (
	ndSolicitRouter    = 133
	ndSolicitNeighbour = 135
	ndNeighbour        = 136

	optionSourceMAC = 1 // source link-layer address
	optionTargetMAC = 2 // target link-layer address

	ndHopLimit = 255 // what a receiver demands, so that no router passed it on

	// askHolder bounds the question for who has an address. A neighbour
	// answers within a millisecond or not at all; twice half a second is also
	// RFC 4861's RETRANS_TIMER.
	askHolder = 500 * time.Millisecond
)

// ndSocket is a raw ICMPv6 socket, in the calling thread's namespace, that
// sends on one link.
func ndSocket(index int) (int, error) {
	fd, err := unix.Socket(unix.AF_INET6, unix.SOCK_RAW|unix.SOCK_CLOEXEC, unix.IPPROTO_ICMPV6)
	if err != nil {
		return -1, err
	}
	for _, o := range []struct{ name, value int }{
		{unix.IPV6_MULTICAST_IF, index},
		{unix.IPV6_MULTICAST_HOPS, ndHopLimit},
		{unix.IPV6_MULTICAST_LOOP, 0},
	} {
		if err := unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, o.name, o.value); err != nil {
			unix.Close(fd)
			return -1, err
		}
	}
	return fd, nil
}

// solicitRouters asks the link's routers for an advertisement. The kernel does
// when a link comes up; one that is up already when we begin to listen would
// keep its name servers to itself for up to half an hour.
func (k *kernel) solicitRouters(index int) error {
	fd, err := ndSocket(index)
	if err != nil {
		return fmt.Errorf("solicit routers: %w", err)
	}
	defer unix.Close(fd)
	allRouters := &unix.SockaddrInet6{Addr: netip.MustParseAddr("ff02::2").As16(), ZoneId: uint32(index)}
	if err := unix.Sendto(fd, []byte{ndSolicitRouter, 0, 0, 0, 0, 0, 0, 0}, 0, allRouters); err != nil {
		return fmt.Errorf("solicit routers: %w", err)
	}
	return nil
}

// whoHas asks the link for the MAC of an address that failed its duplicate
// check; "" when nobody answers in time.
func (k *kernel) whoHas(ctx context.Context, l LinkState, addr netip.Addr) (string, error) {
	index := l.Index
	fd, err := ndSocket(index)
	if err != nil {
		return "", fmt.Errorf("ask who has %s: %w", addr, err)
	}
	defer unix.Close(fd)
	var only unix.ICMPv6Filter // a set bit blocks (RFC 3542, 3.2)
	for i := range only.Data {
		only.Data[i] = ^uint32(0)
	}
	only.Data[ndNeighbour/32] &^= 1 << (ndNeighbour % 32)
	if err := unix.SetsockoptICMPv6Filter(fd, unix.IPPROTO_ICMPV6, unix.ICMPV6_FILTER, &only); err != nil {
		return "", fmt.Errorf("ask who has %s: %w", addr, err)
	}
	if err := unix.Sendto(fd, solicitation(addr, macBytes(l.MAC)), 0, &unix.SockaddrInet6{Addr: solicitedNode(addr).As16(), ZoneId: uint32(index)}); err != nil {
		return "", fmt.Errorf("ask who has %s: %w", addr, err)
	}
	buf := make([]byte, 1500)
	for deadline := time.Now().Add(askHolder); ctx.Err() == nil; {
		left := time.Until(deadline)
		if left < time.Millisecond {
			break // and a timeout of 0 would be none
		}
		tv := unix.NsecToTimeval(left.Nanoseconds())
		if err := unix.SetsockoptTimeval(fd, unix.SOL_SOCKET, unix.SO_RCVTIMEO, &tv); err != nil {
			return "", err
		}
		n, from, err := unix.Recvfrom(fd, buf, 0)
		if err == unix.EINTR {
			continue
		}
		if err != nil {
			break // EAGAIN: time is up
		}
		if sa, ok := from.(*unix.SockaddrInet6); !ok || sa.ZoneId != 0 && sa.ZoneId != uint32(index) {
			continue
		}
		if mac, ok := parseNeighbour(buf[:n], addr); ok {
			return mac, nil
		}
	}
	return "", ctx.Err()
}

// solicitation asks for addr. Without our MAC in it nobody answers who does
// not know us already (RFC 4861, 7.2.2).
func solicitation(addr netip.Addr, mac []byte) []byte {
	target := addr.As16()
	b := make([]byte, 8, 32)
	b[0] = ndSolicitNeighbour // the kernel fills in the checksum
	b = append(b, target[:]...)
	if len(mac) == 6 {
		b = append(append(b, optionSourceMAC, 1), mac...)
	}
	return b
}

// solicitedNode is the group that whoever has the address listens on (RFC 4291,
// 2.7.1).
func solicitedNode(addr netip.Addr) netip.Addr {
	a := addr.As16()
	group := netip.MustParseAddr("ff02::1:ff00:0").As16()
	copy(group[13:], a[13:])
	return netip.AddrFrom16(group)
}

// parseNeighbour takes the MAC out of a neighbour advertisement for addr.
func parseNeighbour(b []byte, addr netip.Addr) (string, bool) {
	if len(b) < 24 || b[0] != ndNeighbour || netip.AddrFrom16([16]byte(b[8:24])) != addr {
		return "", false
	}
	for options := b[24:]; len(options) >= 8; {
		n := 8 * int(options[1])
		if n == 0 || n > len(options) {
			return "", false
		}
		if options[0] == optionTargetMAC && n == 8 {
			return macString(options[2:8]), true
		}
		options = options[n:]
	}
	return "", false
}
