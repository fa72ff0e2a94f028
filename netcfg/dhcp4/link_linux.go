package dhcp4

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"
	"unsafe"

	"github.com/mdlayher/socket"
	"golang.org/x/net/bpf"
	"golang.org/x/sys/unix"
)

// sockets is a Link on the kernel. The packet sockets see what comes before
// there is an address, and whatever address it is sent to; bound to a vlan or
// a bond they see that device's packets. The UDP socket sends by the kernel's
// routes, to a server behind a router, and its being there keeps the kernel
// from calling the port unreachable; nobody reads it.
type sockets struct {
	index        int
	ip, arp, udp *socket.Conn
}

// Listen opens the sockets for an interface, in the network namespace of the
// calling thread.
func Listen(index int, name string) (Link, error) {
	s := &sockets{index: index}
	var err error
	if s.ip, err = packetSocket(index, unix.ETH_P_IP, forClient); err != nil {
		return nil, fmt.Errorf("open packet socket on %s: %w", name, err)
	}
	if s.arp, err = packetSocket(index, unix.ETH_P_ARP, nil); err != nil {
		s.Close()
		return nil, fmt.Errorf("open ARP socket on %s: %w", name, err)
	}
	if s.udp, err = udpSocket(name); err != nil {
		s.Close()
		return nil, fmt.Errorf("open UDP socket on %s: %w", name, err)
	}
	return s, nil
}

// forClient lets whole UDP packets for the client's port through and drops the
// node's other traffic in the kernel.
var forClient = []bpf.Instruction{
	bpf.LoadAbsolute{Off: 9, Size: 1},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: protoUDP, SkipTrue: 6},
	bpf.LoadAbsolute{Off: 6, Size: 2},
	bpf.JumpIf{Cond: bpf.JumpBitsSet, Val: 0x3fff, SkipTrue: 4}, // fragments
	bpf.LoadMemShift{Off: 0},
	bpf.LoadIndirect{Off: 2, Size: 2},
	bpf.JumpIf{Cond: bpf.JumpNotEqual, Val: clientPort, SkipTrue: 1},
	bpf.RetConstant{Val: 0xffff},
	bpf.RetConstant{Val: 0},
}

// packetSocket has the filter before it is bound, so that nothing else is ever
// queued.
func packetSocket(index int, protocol uint16, filter []bpf.Instruction) (*socket.Conn, error) {
	conn, err := socket.Socket(unix.AF_PACKET, unix.SOCK_DGRAM, 0, "dhcp4", nil)
	if err != nil {
		return nil, err
	}
	if filter != nil {
		var raw []bpf.RawInstruction
		if raw, err = bpf.Assemble(filter); err == nil {
			err = conn.SetBPF(raw)
		}
	}
	if err == nil {
		err = conn.Bind(&unix.SockaddrLinklayer{Protocol: bigEndian(protocol), Ifindex: index})
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// bigEndian is n in network byte order on this machine.
func bigEndian(n uint16) uint16 {
	b := [2]byte{byte(n >> 8), byte(n)}
	return *(*uint16)(unsafe.Pointer(&b))
}

func udpSocket(name string) (*socket.Conn, error) {
	conn, err := socket.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0, "dhcp4", nil)
	if err != nil {
		return nil, err
	}
	// Other interfaces have a socket on the same port; nobody reads this one.
	err = errors.Join(
		conn.SetsockoptInt(unix.SOL_SOCKET, unix.SO_REUSEADDR, 1),
		conn.SetsockoptString(unix.SOL_SOCKET, unix.SO_BINDTODEVICE, name),
		conn.SetReadBuffer(0),
		conn.Bind(&unix.SockaddrInet4{Port: clientPort}),
	)
	if err != nil {
		conn.Close()
		return nil, err
	}
	return conn, nil
}

// sendWait bounds a send to a NIC that takes nothing.
const sendWait = time.Second

func (s *sockets) Broadcast(message []byte, from netip.Addr) error {
	ctx, cancel := context.WithTimeout(context.Background(), sendWait)
	defer cancel()
	frame := udpFrame(from, netip.AddrFrom4([4]byte{255, 255, 255, 255}), message)
	if err := s.ip.Sendto(ctx, frame, 0, s.everybody(unix.ETH_P_IP)); err != nil {
		return fmt.Errorf("broadcast: %w", err)
	}
	return nil
}

func (s *sockets) Unicast(message []byte, from, to netip.Addr) error {
	ctx, cancel := context.WithTimeout(context.Background(), sendWait)
	defer cancel()
	source := unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: from.As4()})
	_, err := s.udp.Sendmsg(ctx, message, source, &unix.SockaddrInet4{Port: serverPort, Addr: to.As4()}, 0)
	if err != nil {
		return fmt.Errorf("send to %s: %w", to, err)
	}
	return nil
}

func (s *sockets) ARP(mac [6]byte, sender, target netip.Addr) error {
	ctx, cancel := context.WithTimeout(context.Background(), sendWait)
	defer cancel()
	if err := s.arp.Sendto(ctx, arpFrame(mac, sender, target), 0, s.everybody(unix.ETH_P_ARP)); err != nil {
		return fmt.Errorf("send ARP: %w", err)
	}
	return nil
}

func (s *sockets) everybody(protocol uint16) unix.Sockaddr {
	return &unix.SockaddrLinklayer{
		Protocol: bigEndian(protocol), Ifindex: s.index,
		Halen: 6, Addr: [8]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff},
	}
}

// Receive reads both packet sockets until they are closed, or the kernel
// says that the interface is gone.
func (s *sockets) Receive(message func([]byte), arp func(mac [6]byte, sender, target netip.Addr)) {
	var both sync.WaitGroup
	both.Go(func() {
		each(s.ip, func(b []byte) {
			if payload, err := udpPayload(b); err == nil {
				message(payload)
			}
		})
	})
	both.Go(func() {
		each(s.arp, func(b []byte) {
			if mac, sender, target, ok := parseARP(b); ok {
				arp(mac, sender, target)
			}
		})
	})
	both.Wait()
}

// each reads packets. A link that is taken down reports ENETDOWN once and goes
// on when it is up again.
func each(conn *socket.Conn, packet func([]byte)) {
	buffer := make([]byte, 0xffff)
	for {
		n, _, err := conn.Recvfrom(context.Background(), buffer, 0)
		switch {
		case errors.Is(err, unix.ENETDOWN):
		case err != nil:
			return
		default:
			packet(buffer[:n])
		}
	}
}

func (s *sockets) Close() error {
	var errs []error
	for _, conn := range []*socket.Conn{s.ip, s.arp, s.udp} {
		if conn != nil {
			errs = append(errs, conn.Close())
		}
	}
	return errors.Join(errs...)
}
