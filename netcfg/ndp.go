package netcfg

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"strings"
	"time"
)

// advertised is one option of a router advertisement that the kernel leaves to
// user space: name servers or search domains, and for how long.
type advertised struct {
	link     int // index
	servers  []netip.Addr
	domains  []string
	lifetime time.Duration // 0 takes them back, endless keeps them
}

// endless is the lifetime of all ones (RFC 8106, 5.1): longer than any machine.
const endless = 1<<63 - 1

// Numbers of the kernel's and RFC 8106's headers.
const (
	ndUserOptHeader = 16 // struct nduseroptmsg (include/uapi/linux/rtnetlink.h)
	ndAdvertisement = 134

	optionRDNSS = 25
	optionDNSSL = 31
)

var errOption = errors.New("malformed neighbour discovery option")

// parseUserOption reads a message of RTNLGRP_ND_USEROPT, which has one option
// (ndisc_ra_useropt, net/ipv6/ndisc.c). Options that are of no use here are
// empty and no error. The kernel has checked the sender, not the content.
func parseUserOption(data []byte) (advertised, error) {
	var a advertised
	if len(data) < ndUserOptHeader {
		return a, errShort
	}
	length := int(binary.NativeEndian.Uint16(data[2:]))
	a.link = int(int32(binary.NativeEndian.Uint32(data[4:])))
	option := data[ndUserOptHeader:]
	if length > len(option) || length < 8 || a.link <= 0 {
		return a, errOption
	}
	if data[8] != ndAdvertisement {
		return advertised{link: a.link}, nil
	}
	return a, a.read(option[:length])
}

// read takes an option: its type, its length in units of 8 bytes, 2 bytes
// reserved, the lifetime in seconds, the list (RFC 8106, 5.1 and 5.2).
func (a *advertised) read(option []byte) error {
	if n := 8 * int(option[1]); n < 8 || n > len(option) {
		return errOption
	} else {
		option = option[:n]
	}
	a.lifetime = endless
	if seconds := binary.BigEndian.Uint32(option[4:]); seconds != 1<<32-1 {
		a.lifetime = time.Duration(seconds) * time.Second
	}
	switch option[0] {
	case optionRDNSS:
		if len(option)%16 != 8 || len(option) == 8 {
			return errOption
		}
		for rest := option[8:]; len(rest) > 0; rest = rest[16:] {
			server := netip.AddrFrom16([16]byte(rest))
			if server.IsUnspecified() || server.IsMulticast() || server.IsLoopback() || server.Is4In6() {
				return errOption
			}
			a.servers = append(a.servers, server)
		}
	case optionDNSSL:
		for rest := option[8:]; len(rest) > 0 && rest[0] != 0; {
			domain, n := readDomain(rest)
			if n == 0 {
				return errOption
			}
			a.domains, rest = append(a.domains, domain), rest[n:]
		}
	}
	return nil
}

// readDomain reads a name in the form of RFC 1035, 3.1, and how long it was; 0
// if it is none that may stand in resolv.conf.
func readDomain(b []byte) (string, int) {
	var labels []string
	for i := 0; i < len(b) && i < 255; {
		n := int(b[i])
		i++
		if n == 0 {
			return strings.Join(labels, "."), i
		}
		if n > 63 || i+n > len(b) || !isLabel(b[i:i+n]) {
			return "", 0
		}
		labels = append(labels, string(b[i:i+n]))
		i += n
	}
	return "", 0
}

// isLabel keeps anything out that has a meaning in resolv.conf.
func isLabel(b []byte) bool {
	for _, c := range b {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}
