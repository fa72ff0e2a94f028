package netcfg

import (
	"context"
	"encoding/binary"
	"math"
	"net/netip"

	"golang.org/x/sys/unix"
)

// The header of a rule's message is struct fib_rule_hdr (include/uapi/linux/
// fib_rules.h): family, dst_len, src_len, tos, table, two reserved, action, flags.
const (
	ruleHeader = 12
	ruleInvert = 2 // FIB_RULE_INVERT

	fraProtocol  = 21 // FRA_PROTOCOL
	fraSuppress  = 14 // FRA_SUPPRESS_PREFIXLEN
	frActToTable = 1  // FR_ACT_TO_TBL
)

// rule adds or deletes. Excl, because the kernel would take a second one.
func (k *kernel) rule(ctx context.Context, op Op) error {
	r := op.Rule
	typ, flags := uint16(unix.RTM_NEWRULE), uint16(unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	if op.Verb == OpDeleteRule {
		typ, flags = unix.RTM_DELRULE, 0
	}
	header := make([]byte, ruleHeader)
	header[0], header[3], header[7] = r.family(), byte(r.TOS), frActToTable
	if r.To.IsValid() {
		header[1] = byte(r.To.Bits())
	}
	if r.From.IsValid() {
		header[2] = byte(r.From.Bits())
	}
	return k.nl.write(ctx, typ, flags, header, func(ae *attrs) {
		if r.To.IsValid() && r.To.Bits() > 0 {
			ae.Bytes(unix.FRA_DST, r.To.Addr().AsSlice())
		}
		if r.From.IsValid() && r.From.Bits() > 0 {
			ae.Bytes(unix.FRA_SRC, r.From.Addr().AsSlice())
		}
		if r.Priority >= 0 {
			ae.Uint32(unix.FRA_PRIORITY, uint32(r.Priority))
		}
		if r.Mark != 0 {
			ae.Uint32(unix.FRA_FWMARK, uint32(r.Mark))
		}
		ae.Uint32(unix.FRA_TABLE, uint32(r.Table))
		ae.Uint8(fraProtocol, ownProto)
	})
}

func (r Rule) family() byte {
	if r.IPv6 {
		return unix.AF_INET6
	}
	return unix.AF_INET
}

func ruleDumpRequest(family byte) []byte {
	b := make([]byte, ruleHeader)
	b[0] = family
	return b
}

// decodeRule keeps the rules that a Rule can describe: others are never ours.
func decodeRule(s *State, data []byte) error {
	var r RuleState
	var to, from netip.Addr
	other := false
	err := attributes(data, ruleHeader, func(ad attribute) {
		switch ad.Type {
		case unix.FRA_DST:
			to, _ = netip.AddrFromSlice(ad.data)
		case unix.FRA_SRC:
			from, _ = netip.AddrFromSlice(ad.data)
		case unix.FRA_PRIORITY:
			r.Priority = ad.number()
		case unix.FRA_FWMARK:
			r.Mark = ad.number()
		case unix.FRA_FWMASK:
			other = other || ad.number() != math.MaxUint32
		case unix.FRA_TABLE:
			r.Table = ad.number()
		case fraProtocol:
			r.Proto = ad.number()
		case fraSuppress:
			other = other || ad.number() != math.MaxUint32 // -1 is none
		default:
			other = true
		}
	})
	if err != nil {
		return err
	}
	if other || data[7] != frActToTable || binary.NativeEndian.Uint32(data[8:])&ruleInvert != 0 {
		return nil
	}
	r.IPv6, r.TOS = data[0] == unix.AF_INET6, int(data[3])
	if to.IsValid() {
		r.To = netip.PrefixFrom(to, int(data[1]))
	}
	if from.IsValid() {
		r.From = netip.PrefixFrom(from, int(data[2]))
	}
	s.Rules = append(s.Rules, r)
	return nil
}
