package netcfg

import (
	"encoding/binary"
	"net"
	"net/netip"
	"slices"

	"golang.org/x/sys/unix"
)

// ifInfo is struct ifinfomsg: 16 bytes.
func ifInfo(index int, flags, change uint32) []byte {
	b := make([]byte, unix.SizeofIfInfomsg)
	binary.NativeEndian.PutUint32(b[4:], uint32(index))
	binary.NativeEndian.PutUint32(b[8:], flags)
	binary.NativeEndian.PutUint32(b[12:], change)
	return b
}

// ifAddr is struct ifaddrmsg: 8 bytes.
func ifAddr(p netip.Prefix, index int) []byte {
	b := make([]byte, unix.SizeofIfAddrmsg)
	b[0], b[1] = family(p.Addr()), byte(p.Bits())
	if p.Addr().IsLinkLocalUnicast() {
		b[3] = scopeLink
	}
	binary.NativeEndian.PutUint32(b[4:], uint32(index))
	return b
}

// rtMsg is struct rtmsg: 12 bytes.
func rtMsg(r Route, proto int) []byte {
	b := make([]byte, unix.SizeofRtMsg)
	b[0], b[1] = family(r.To.Addr()), byte(r.To.Bits())
	b[4] = unix.RT_TABLE_UNSPEC // RTA_TABLE has it
	b[5], b[6], b[7] = byte(proto), byte(r.Scope), byte(slices.Index(routeWords, r.Type))
	if r.OnLink {
		binary.NativeEndian.PutUint32(b[8:], unix.RTNH_F_ONLINK)
	}
	return b
}

func family(a netip.Addr) byte {
	if a.Is4() {
		return unix.AF_INET
	}
	return unix.AF_INET6
}

func macString(b []byte) string {
	if len(b) != 6 {
		return ""
	}
	return net.HardwareAddr(b).String()
}
