package dhcp4

import (
	"encoding/binary"
	"errors"
	"net/netip"
)

// Packets as they are on the link, behind the Ethernet header: before there is
// an address, the kernel's sockets can neither send nor receive them.

const (
	clientPort = 68
	serverPort = 67

	ipHeader  = 20
	udpHeader = 8
	protoUDP  = 17

	arpLength  = 28
	arpRequest = 1
)

// udpFrame is an IPv4 packet with a message to a server. TOS 0x10 (low delay)
// and TTL 64 are what other clients send.
func udpFrame(from, to netip.Addr, message []byte) []byte {
	b := make([]byte, ipHeader+udpHeader, ipHeader+udpHeader+len(message)+1)
	b[0], b[1], b[8], b[9] = 0x45, 0x10, 64, protoUDP
	binary.BigEndian.PutUint16(b[2:], uint16(len(b)+len(message)))
	copy(b[12:], from.AsSlice())
	copy(b[16:], to.AsSlice())
	binary.BigEndian.PutUint16(b[10:], checksum(0, b[:ipHeader]))

	udp := b[ipHeader:]
	length := uint16(udpHeader + len(message))
	binary.BigEndian.PutUint16(udp[0:], clientPort)
	binary.BigEndian.PutUint16(udp[2:], serverPort)
	binary.BigEndian.PutUint16(udp[4:], length)
	b = append(b, message...)
	pseudo := checksum(uint32(protoUDP)+uint32(length), b[12:20])
	sum := checksum(uint32(^pseudo), b[ipHeader:])
	if sum == 0 {
		sum = 0xffff // 0 stands for "none" (RFC 768)
	}
	binary.BigEndian.PutUint16(b[ipHeader+6:], sum)
	return b
}

// checksum is the Internet checksum (RFC 1071) of start and b.
func checksum(start uint32, b []byte) uint16 {
	sum := start
	for ; len(b) >= 2; b = b[2:] {
		sum += uint32(binary.BigEndian.Uint16(b))
	}
	if len(b) == 1 {
		sum += uint32(b[0]) << 8
	}
	for sum > 0xffff {
		sum = sum>>16 + sum&0xffff
	}
	return ^uint16(sum)
}

var errFrame = errors.New("not a whole UDP packet for a DHCP client")

// udpPayload is the message in an IPv4 packet for our port, whatever its
// destination address. Checksums are not looked at: between virtual machines
// they are filled in by nobody, and the link has its own.
func udpPayload(b []byte) ([]byte, error) {
	if len(b) < ipHeader || b[0]>>4 != 4 || b[9] != protoUDP {
		return nil, errFrame
	}
	header := int(b[0]&15) * 4
	total := int(binary.BigEndian.Uint16(b[2:]))
	fragment := binary.BigEndian.Uint16(b[6:])&0x3fff != 0 // more to come, or not the first
	if header < ipHeader || total < header+udpHeader || total > len(b) || fragment {
		return nil, errFrame
	}
	udp := b[header:total] // Ethernet pads short packets
	length := int(binary.BigEndian.Uint16(udp[4:]))
	if binary.BigEndian.Uint16(udp[2:]) != clientPort || length < udpHeader || length > len(udp) {
		return nil, errFrame
	}
	return udp[udpHeader:length], nil
}

// arpFrame asks for target. A sender of 0.0.0.0 makes it a probe, a sender
// that is the target an announcement (RFC 5227, section 1.1).
func arpFrame(mac [6]byte, sender, target netip.Addr) []byte {
	b := []byte{0, 1, 8, 0, 6, 4, 0, arpRequest}
	b = append(b, mac[:]...)
	b = append(b, sender.AsSlice()...)
	b = append(b, make([]byte, 6)...)
	return append(b, target.AsSlice()...)
}

// parseARP is the sender and the target of an ARP packet about IPv4 on
// Ethernet; false for any other.
func parseARP(b []byte) (mac [6]byte, sender, target netip.Addr, ok bool) {
	if len(b) < arpLength || [6]byte(b[:6]) != [6]byte{0, 1, 8, 0, 6, 4} {
		return mac, sender, target, false
	}
	return [6]byte(b[8:]), netip.AddrFrom4([4]byte(b[14:])), netip.AddrFrom4([4]byte(b[24:])), true
}
