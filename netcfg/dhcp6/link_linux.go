package dhcp6

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/mdlayher/socket"
	"golang.org/x/sys/unix"
)

const (
	clientPort = 546
	serverPort = 547

	// sendWait bounds a send to a NIC that takes nothing.
	sendWait = time.Second
)

// allServers is All_DHCP_Relay_Agents_and_Servers (RFC 8415, section 7.1).
var allServers = netip.MustParseAddr("ff02::1:2")

// udp is a Link on the kernel.
type udp struct {
	conn  *socket.Conn
	index int
}

// Listen opens the socket for an interface, in the network namespace of the
// calling thread. It is bound to no address: the kernel sends from the
// link-local one to a link's multicast group.
func Listen(index int, name string) (Link, error) {
	conn, err := socket.Socket(unix.AF_INET6, unix.SOCK_DGRAM, 0, "dhcp6", nil)
	if err != nil {
		return nil, fmt.Errorf("open UDP socket on %s: %w", name, err)
	}
	err = errors.Join(
		conn.SetsockoptInt(unix.SOL_SOCKET, unix.SO_REUSEADDR, 1), // other interfaces have the port too
		conn.SetsockoptInt(unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 1),
		conn.SetsockoptString(unix.SOL_SOCKET, unix.SO_BINDTODEVICE, name),
		conn.Bind(&unix.SockaddrInet6{Port: clientPort}),
	)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("open UDP socket on %s: %w", name, err)
	}
	return &udp{conn, index}, nil
}

func (u *udp) Send(message []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), sendWait)
	defer cancel()
	to := &unix.SockaddrInet6{Port: serverPort, ZoneId: uint32(u.index), Addr: allServers.As16()}
	if err := u.conn.Sendto(ctx, message, 0, to); err != nil {
		return fmt.Errorf("send: %w", err)
	}
	return nil
}

func (u *udp) Receive(message func([]byte, netip.Addr)) {
	buffer := make([]byte, maxMessage+1) // a longer one is cut, and still too long
	for {
		n, from, err := u.conn.Recvfrom(context.Background(), buffer, 0)
		switch {
		case errors.Is(err, unix.ENETDOWN), errors.Is(err, unix.ECONNREFUSED):
		case err != nil:
			return
		default:
			if six, ok := from.(*unix.SockaddrInet6); ok {
				message(buffer[:n], netip.AddrFrom16(six.Addr))
			}
		}
	}
}

func (u *udp) Close() error { return u.conn.Close() }
