package netcfg

import (
	"cmp"
	"context"
	"encoding/binary"
	"net/netip"

	"golang.org/x/sys/unix"
)

func (k *kernel) route(ctx context.Context, index int, op Op) error {
	r, proto := op.Route, cmp.Or(op.Proto, ownProto)
	typ, flags := uint16(unix.RTM_NEWROUTE), uint16(unix.NLM_F_CREATE|unix.NLM_F_EXCL)
	switch {
	case op.Verb == OpReplaceRoute:
		flags = unix.NLM_F_CREATE | unix.NLM_F_REPLACE
	case op.Verb == OpDeleteRoute:
		typ, flags, proto = unix.RTM_DELROUTE, 0, op.Proto
	case r.To.Addr().Is6():
		// Beside a router advertisement's route of the same metric.
		flags = unix.NLM_F_CREATE | unix.NLM_F_APPEND
	}
	return k.nl.write(ctx, typ, flags, rtMsg(r, proto), func(ae *attrs) {
		if r.To.Bits() > 0 {
			ae.Bytes(unix.RTA_DST, r.To.Addr().AsSlice())
		}
		if r.Via.IsValid() {
			ae.Bytes(unix.RTA_GATEWAY, r.Via.AsSlice())
		}
		if r.From.IsValid() {
			ae.Bytes(unix.RTA_PREFSRC, r.From.AsSlice())
		}
		if index != 0 {
			ae.Uint32(unix.RTA_OIF, uint32(index))
		}
		ae.Nested(unix.RTA_METRICS, func(in *attrs) error {
			for _, m := range r.metrics() {
				if m.value != 0 {
					in.Uint32(m.attr, uint32(m.value))
				}
			}
			return nil
		})
		ae.Uint32(unix.RTA_PRIORITY, uint32(r.Metric))
		ae.Uint32(unix.RTA_TABLE, uint32(r.Table))
	})
}

func routeDumpRequest(family byte) []byte {
	b := make([]byte, unix.SizeofRtMsg)
	b[0] = family
	return b
}

// decodeRoute reads a route. What the kernel derives from addresses to receive
// broadcasts and the like is left out: it is most of the list. So are routes that
// none of ours can be, or be in the way of: those for a source or a TOS, and
// those of IPv4 with several next hops.
func decodeRoute(s *State, data []byte) error {
	if len(data) < unix.SizeofRtMsg {
		return errShort
	}
	kind := int(data[7])
	if data[5] == unix.RTPROT_KERNEL && kind != unix.RTN_UNICAST && kind != unix.RTN_LOCAL || kind >= len(routeWords) || kind == unix.RTN_UNSPEC {
		return nil
	}
	if data[2] != 0 || data[3] != 0 {
		return nil
	}
	var r RouteState
	var to netip.Addr
	var hops []byte
	err := attributes(data, unix.SizeofRtMsg, func(ad attribute) {
		switch ad.Type {
		case unix.RTA_DST:
			to, _ = netip.AddrFromSlice(ad.data)
		case unix.RTA_GATEWAY:
			r.Via, _ = netip.AddrFromSlice(ad.data)
		case unix.RTA_PREFSRC:
			r.From, _ = netip.AddrFromSlice(ad.data)
		case unix.RTA_OIF:
			r.Link = ad.number()
		case unix.RTA_PRIORITY:
			r.Metric = ad.number()
		case unix.RTA_TABLE:
			r.Table = ad.number()
		case unix.RTA_MULTIPATH:
			hops = ad.data
		case unix.RTA_METRICS:
			decodeMetrics(&r.Route, ad)
		}
	})
	if err != nil {
		return err
	}
	r.Type = routeWords[kind]
	if r.refuses() {
		r.Link = 0 // IPv6 says lo
	} else if r.Link == 0 && (hops == nil || data[0] != unix.AF_INET6) {
		return nil
	}
	if !to.IsValid() {
		to = netip.IPv4Unspecified()
		if data[0] == unix.AF_INET6 {
			to = netip.IPv6Unspecified()
		}
	}
	r.To = netip.PrefixFrom(to, int(data[1]))
	r.Proto, r.Scope = int(data[5]), int(data[6])
	r.OnLink = binary.NativeEndian.Uint32(data[8:])&unix.RTNH_F_ONLINK != 0
	if hops != nil {
		return decodeHops(s, r, hops)
	}
	s.Routes = append(s.Routes, r)
	return nil
}

// decodeHops makes a route of each next hop. The kernel joins IPv6 routes that
// have the same destination and metric, whoever made them (fib6_add_rt2node),
// and tells the protocol of the first alone: of the others nobody knows whose
// they are, so none is taken for ours.
func decodeHops(s *State, r RouteState, hops []byte) error {
	r.Proto = unix.RTPROT_UNSPEC
	for len(hops) > 0 {
		if len(hops) < unix.SizeofRtNexthop {
			return errShort
		}
		size := int(binary.NativeEndian.Uint16(hops))
		if size < unix.SizeofRtNexthop || size > len(hops) {
			return errShort
		}
		hop := r
		hop.Link = int(binary.NativeEndian.Uint32(hops[4:]))
		hop.OnLink = hops[2]&unix.RTNH_F_ONLINK != 0
		err := attributes(hops[:size], unix.SizeofRtNexthop, func(ad attribute) {
			if ad.Type == unix.RTA_GATEWAY {
				hop.Via, _ = netip.AddrFromSlice(ad.data)
			}
		})
		if err != nil {
			return err
		}
		s.Routes = append(s.Routes, hop)
		hops = hops[min((size+3)&^3, len(hops)):]
	}
	return nil
}

func decodeMetrics(r *Route, ad attribute) {
	ad.nested(func(in attribute) {
		switch in.Type {
		case unix.RTAX_MTU:
			r.MTU = in.number()
		case unix.RTAX_ADVMSS:
			r.AdvertisedMSS = in.number()
		case unix.RTAX_INITCWND:
			r.CongestionWindow = in.number()
		case unix.RTAX_INITRWND:
			r.AdvertisedReceive = in.number()
		}
	})
}
