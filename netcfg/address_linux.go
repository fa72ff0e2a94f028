package netcfg

import (
	"cmp"
	"context"
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

// ifaProto is IFA_PROTO, include/uapi/linux/if_addr.h, since Linux 5.18; x/sys
// has not got it.
const ifaProto = 11

func (k *kernel) address(ctx context.Context, index int, op Op) error {
	typ, flags := uint16(unix.RTM_NEWADDR), uint16(unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	switch op.Verb {
	case OpReplaceAddress:
		flags = unix.NLM_F_REPLACE
	case OpDeleteAddress:
		typ, flags = unix.RTM_DELADDR, 0
	}
	addr := op.Address.Addr()
	return k.nl.write(ctx, typ, flags, ifAddr(op.Address, index), func(ae *attrs) {
		ae.Bytes(unix.IFA_LOCAL, addr.AsSlice())
		ae.Bytes(unix.IFA_ADDRESS, addr.AsSlice())
		if op.Verb == OpDeleteAddress {
			return
		}
		if b, ok := broadcast(op.Address); ok {
			ae.Bytes(unix.IFA_BROADCAST, b.AsSlice())
		}
		if addr.Is4() {
			ae.String(unix.IFA_LABEL, cmp.Or(op.Label, op.Link))
		}
		ae.Uint8(ifaProto, ownProto)
		// struct ifa_cacheinfo: preferred and valid lifetime, two time stamps.
		life := forever
		if op.Valid != 0 {
			life = lifetime{op.Preferred, op.Valid}
		}
		info := binary.NativeEndian.AppendUint32(nil, life.preferred)
		info = binary.NativeEndian.AppendUint32(info, life.valid)
		ae.Bytes(unix.IFA_CACHEINFO, append(info, make([]byte, 8)...))
	})
}

// broadcast is the IPv4 network's last address; /31 and /32 have none (RFC 3021).
func broadcast(p netip.Prefix) (netip.Addr, bool) {
	if !p.Addr().Is4() || p.Bits() >= 31 {
		return netip.Addr{}, false
	}
	b := p.Masked().Addr().As4()
	for bit := p.Bits(); bit < 32; bit++ {
		b[bit/8] |= 0x80 >> (bit % 8)
	}
	return netip.AddrFrom4(b), true
}

func decodeAddress(s *State, data []byte) error {
	var a AddressState
	var local, peer netip.Addr
	var flags int
	err := attributes(data, unix.SizeofIfAddrmsg, func(ad attribute) {
		switch ad.Type {
		case unix.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(ad.data)
		case unix.IFA_ADDRESS:
			peer, _ = netip.AddrFromSlice(ad.data)
		case unix.IFA_FLAGS:
			flags = ad.number()
		case unix.IFA_LABEL:
			a.Label = ad.text()
		case ifaProto:
			a.Proto = ad.number()
		case unix.IFA_CACHEINFO:
			if info := ad.data; len(info) >= 8 {
				a.Preferred = binary.NativeEndian.Uint32(info)
				a.Valid = binary.NativeEndian.Uint32(info[4:])
			}
		}
	})
	if err != nil {
		return err
	}
	if !local.IsValid() {
		local = peer // IPv6 without a peer has only IFA_ADDRESS
	}
	if local.IsValid() {
		a.Link = int(binary.NativeEndian.Uint32(data[4:]))
		a.Prefix = netip.PrefixFrom(local, int(data[1]))
		a.Dynamic = flags&unix.IFA_F_PERMANENT == 0
		a.Tentative = flags&unix.IFA_F_TENTATIVE != 0 && flags&unix.IFA_F_OPTIMISTIC == 0
		a.DADFailed = flags&unix.IFA_F_DADFAILED != 0
		a.Deprecated = flags&unix.IFA_F_DEPRECATED != 0
		a.Temporary = local.Is6() && flags&unix.IFA_F_TEMPORARY != 0
		s.Addresses = append(s.Addresses, a)
	}
	return nil
}

// dropOwnLabels empties the labels that are their links' names: they follow a
// rename.
func dropOwnLabels(s *State) {
	names := make(map[int]string, len(s.Links))
	for _, l := range s.Links {
		names[l.Index] = l.Name
	}
	for i := range s.Addresses {
		if a := &s.Addresses[i]; a.Label == names[a.Link] {
			a.Label = ""
		}
	}
}
