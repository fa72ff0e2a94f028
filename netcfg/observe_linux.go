package netcfg

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// Numbers of the kernel's headers that x/sys has not.
const (
	ifaProto = 11 // IFA_PROTO, include/uapi/linux/if_addr.h, since Linux 5.18

	rtextSkipStats = 8 // RTEXT_FILTER_SKIP_STATS

	operUnknown = 0 // IF_OPER_UNKNOWN: a device that has no such state
	operUp      = 6 // IF_OPER_UP

	// Places in IFLA_INET6_CONF (include/uapi/linux/ipv6.h, DEVCONF_*).
	devconfForwarding  = 0
	devconfMTU         = 2
	devconfAcceptRA    = 3
	devconfUseTempAddr = 10
	devconfDisableIPv6 = 26

	bondStateActive = 0 // BOND_STATE_ACTIVE
	bondLinkUp      = 0 // BOND_LINK_UP
)

// Observe reads the network of the calling thread's namespace. resolvConf is
// the file of name servers, "" when that is not managed.
func Observe(ctx context.Context, resolvConf string) (State, error) {
	conn, err := dialRTNL()
	if err != nil {
		return State{}, err
	}
	defer conn.close()
	return conn.observe(ctx, resolvConf)
}

func (r *rtnl) observe(ctx context.Context, resolvConf string) (State, error) {
	var s State
	for _, list := range []struct {
		name   string
		typ    netlink.HeaderType
		header []byte
		decode func(*State, []byte) error
	}{
		{"links", unix.RTM_GETLINK, linkDumpRequest(), decodeLink},
		{"addresses", unix.RTM_GETADDR, make([]byte, unix.SizeofIfAddrmsg), decodeAddress},
		{"IPv4 routes", unix.RTM_GETROUTE, routeDumpRequest(unix.AF_INET), decodeRoute},
		{"IPv6 routes", unix.RTM_GETROUTE, routeDumpRequest(unix.AF_INET6), decodeRoute},
		{"IPv4 rules", unix.RTM_GETRULE, ruleDumpRequest(unix.AF_INET), decodeRule},
		{"IPv6 rules", unix.RTM_GETRULE, ruleDumpRequest(unix.AF_INET6), decodeRule},
	} {
		msgs, err := r.dump(ctx, list.typ, list.header)
		if errors.Is(err, unix.EOPNOTSUPP) {
			continue // a kernel without IPv6
		}
		if err != nil {
			return State{}, fmt.Errorf("list %s: %w", list.name, err)
		}
		for _, m := range msgs {
			if err := list.decode(&s, m.Data); err != nil {
				return State{}, fmt.Errorf("decode %s: %w", list.name, err)
			}
		}
	}
	slices.SortFunc(s.Links, func(a, b LinkState) int { return cmp.Compare(a.Index, b.Index) })
	nameBondPorts(s.Links)
	dropOwnLabels(&s)
	readBonding(s.Links)
	readPredictable(s.Links)
	readDrivers(s.Links)
	if err := r.observeWakeOnLAN(&s); err != nil {
		return State{}, err
	}
	return s, readResolvConf(&s, resolvConf)
}

func readResolvConf(s *State, path string) (err error) {
	if s.ResolvConf, err = readText(path); err != nil {
		return fmt.Errorf("read name servers: %w", err)
	}
	return nil
}

// readText is a file's text, "" when it does not exist; nil without a path.
func readText(path string) (*string, error) {
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	text := string(b)
	return &text, nil
}

func linkDumpRequest() []byte {
	ae := netlink.NewAttributeEncoder()
	ae.Uint32(unix.IFLA_EXT_MASK, rtextSkipStats)
	attrs, err := ae.Encode()
	if err != nil {
		panic(err) // one fixed integer
	}
	return append(ifInfo(0, 0, 0), attrs...)
}

func routeDumpRequest(family byte) []byte {
	b := make([]byte, unix.SizeofRtMsg)
	b[0] = family
	return b
}

var errShort = errors.New("message is shorter than its header")

// attributes walks the attributes behind a fixed header.
func attributes(data []byte, header int, each func(*netlink.AttributeDecoder)) error {
	if len(data) < header {
		return errShort
	}
	ad, err := netlink.NewAttributeDecoder(data[header:])
	if err != nil {
		return err
	}
	for ad.Next() {
		each(ad)
	}
	return ad.Err()
}

// nested walks the attributes inside one.
func nested(ad *netlink.AttributeDecoder, each func(*netlink.AttributeDecoder)) {
	ad.Nested(func(in *netlink.AttributeDecoder) error {
		for in.Next() {
			each(in)
		}
		return nil
	})
}

func decodeLink(s *State, data []byte) error {
	l := LinkState{NoIPv6: true}
	oper := uint8(operUnknown)
	err := attributes(data, unix.SizeofIfInfomsg, func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case unix.IFLA_IFNAME:
			l.Name = ad.String()
		case unix.IFLA_ADDRESS:
			l.MAC = macString(ad.Bytes())
		case unix.IFLA_PERM_ADDRESS:
			l.PermMAC = macString(ad.Bytes())
		case unix.IFLA_OPERSTATE:
			oper = ad.Uint8()
		case unix.IFLA_MTU:
			l.MTU = int(ad.Uint32())
		case unix.IFLA_MAX_MTU:
			l.MaxMTU = int(ad.Uint32())
		case unix.IFLA_LINK:
			l.Parent = int(ad.Uint32())
		case unix.IFLA_MASTER:
			l.Master = int(ad.Uint32())
		case unix.IFLA_PROP_LIST:
			nested(ad, func(in *netlink.AttributeDecoder) {
				if in.Type() == unix.IFLA_ALT_IFNAME {
					l.AltNames = append(l.AltNames, in.String())
				}
			})
		case unix.IFLA_LINKINFO:
			decodeLinkInfo(&l, ad)
		case unix.IFLA_AF_SPEC:
			nested(ad, func(in *netlink.AttributeDecoder) {
				if in.Type() == unix.AF_INET6 {
					decodeInet6(&l, in)
				}
			})
		}
	})
	if err != nil {
		return err
	}
	flags := binary.NativeEndian.Uint32(data[8:])
	l.Index = int(binary.NativeEndian.Uint32(data[4:]))
	l.Up = flags&unix.IFF_UP != 0
	l.Carrier = flags&unix.IFF_LOWER_UP != 0
	l.Settling = l.Carrier && oper != operUnknown && oper != operUp
	s.Links = append(s.Links, l)
	return nil
}

// decodeLinkInfo relies on the kind coming before the data, as
// rtnl_link_info_fill (net/core/rtnetlink.c) writes them.
func decodeLinkInfo(l *LinkState, ad *netlink.AttributeDecoder) {
	slaveKind := ""
	nested(ad, func(in *netlink.AttributeDecoder) {
		switch in.Type() {
		case unix.IFLA_INFO_KIND:
			l.Kind = in.String()
		case unix.IFLA_INFO_SLAVE_KIND:
			slaveKind = in.String()
		case unix.IFLA_INFO_DATA:
			switch deviceKind(l.Kind) {
			case kindVLAN:
				nested(in, func(v *netlink.AttributeDecoder) {
					if v.Type() == unix.IFLA_VLAN_ID {
						l.VLAN = int(v.Uint16())
					}
				})
			case kindBond:
				l.Bond = BondOptions{}
				nested(in, func(v *netlink.AttributeDecoder) {
					decodeBondOption(l.Bond, v)
					decodeLACP(&l.LACP, v)
				})
			case kindBridge:
				decodeBridge(l, in)
			}
		case unix.IFLA_INFO_SLAVE_DATA:
			switch deviceKind(slaveKind) {
			case kindBond:
				nested(in, func(v *netlink.AttributeDecoder) { decodePort(l, v) })
			case kindBridge:
				l.BridgePort = decodeOptions(in, brportAttrs, nil)
			}
		}
	})
}

func decodeBondOption(o BondOptions, ad *netlink.AttributeDecoder) {
	for i := range bondOptions {
		opt := &bondOptions[i]
		if opt.attr != ad.Type() {
			continue
		}
		switch {
		case opt.name == "arp_ip_target":
			var targets []string
			nested(ad, func(in *netlink.AttributeDecoder) {
				if a, ok := netip.AddrFromSlice(in.Bytes()); ok {
					targets = append(targets, a.String())
				}
			})
			o[opt.name] = strings.Join(targets, ",")
		case opt.name == "primary":
			o[opt.name] = strconv.Itoa(int(ad.Uint32())) // an index, see nameBondPorts
		case opt.size == 1:
			o[opt.name] = opt.word(uint32(ad.Uint8()))
		default:
			o[opt.name] = opt.word(ad.Uint32())
		}
	}
}

func decodeBridge(l *LinkState, ad *netlink.AttributeDecoder) {
	var root, own string
	l.Bridge = decodeOptions(ad, bridgeAttrs, func(v *netlink.AttributeDecoder) {
		switch v.Type() {
		case bridgeRootID:
			root = string(v.Bytes())
		case bridgeID:
			own = string(v.Bytes())
		}
	})
	if root != own {
		for _, name := range rootTimers {
			delete(l.Bridge, name)
		}
	}
}

// decodeOptions reads the options of a bridge or a port; other, if not nil, is
// given the attributes that are none.
func decodeOptions(ad *netlink.AttributeDecoder, options []bridgeAttr, other func(*netlink.AttributeDecoder)) map[string]string {
	out := map[string]string{}
	nested(ad, func(v *netlink.AttributeDecoder) {
		o := attrOf(options, v.Type())
		switch {
		case o == nil && other != nil:
			other(v)
		case o == nil:
		case o.size == 1:
			out[o.name] = strconv.Itoa(int(v.Uint8()))
		case o.size == 2:
			out[o.name] = strconv.Itoa(int(v.Uint16()))
		default:
			out[o.name] = strconv.FormatUint(uint64(v.Uint32()), 10)
		}
	})
	return out
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

// nameBondPorts turns the index of a bond's primary into its name.
func nameBondPorts(links []LinkState) {
	for i := range links {
		primary, ok := links[i].Bond["primary"]
		if !ok {
			continue
		}
		links[i].Bond["primary"] = ""
		for _, l := range links {
			if strconv.Itoa(l.Index) == primary {
				links[i].Bond["primary"] = l.Name
			}
		}
	}
}

func decodePort(l *LinkState, ad *netlink.AttributeDecoder) {
	switch ad.Type() {
	case unix.IFLA_BOND_SLAVE_STATE:
		l.Port.Active = ad.Uint8() == bondStateActive
	case unix.IFLA_BOND_SLAVE_MII_STATUS:
		l.Port.MIIUp = ad.Uint8() == bondLinkUp
	case unix.IFLA_BOND_SLAVE_PERM_HWADDR:
		l.PermMAC = macString(ad.Bytes())
	case unix.IFLA_BOND_SLAVE_AD_AGGREGATOR_ID:
		l.Port.Aggregator = int(ad.Uint16())
	case unix.IFLA_BOND_SLAVE_LINK_FAILURE_COUNT:
		l.Port.Failures = int(ad.Uint32())
	case unix.IFLA_BOND_SLAVE_AD_ACTOR_OPER_PORT_STATE:
		l.Port.Actor = int(ad.Uint8())
	case unix.IFLA_BOND_SLAVE_AD_PARTNER_OPER_PORT_STATE:
		l.Port.Partner = int(ad.Uint16())
	}
}

// decodeInet6 reads the sysctls of the link as the kernel reports them with it,
// which saves opening a file for each.
func decodeInet6(l *LinkState, ad *netlink.AttributeDecoder) {
	l.NoIPv6 = false
	nested(ad, func(in *netlink.AttributeDecoder) {
		switch in.Type() {
		case unix.IFLA_INET6_FLAGS:
			// IF_RA_MANAGED and IF_RA_OTHERCONF, include/net/if_inet6.h.
			flags := in.Uint32()
			l.RAManaged, l.RAOther = flags&0x40 != 0, flags&0x80 != 0
		case unix.IFLA_INET6_ADDR_GEN_MODE:
			l.AddrGenMode = int(in.Uint8())
		case unix.IFLA_INET6_TOKEN:
			if a, ok := netip.AddrFromSlice(in.Bytes()); ok && !a.IsUnspecified() {
				l.Token = a
			}
		case unix.IFLA_INET6_CONF:
			conf := in.Bytes()
			l.IPv6MTU = devconf(conf, devconfMTU)
			l.AcceptRA = devconf(conf, devconfAcceptRA)
			l.Forwarding = devconf(conf, devconfForwarding) != 0
			l.UseTempAddr = devconf(conf, devconfUseTempAddr)
			l.DisableIPv6 = devconf(conf, devconfDisableIPv6) != 0
		}
	})
}

func devconf(conf []byte, i int) int {
	if len(conf) < 4*i+4 {
		return 0
	}
	return int(int32(binary.NativeEndian.Uint32(conf[4*i:])))
}

func decodeAddress(s *State, data []byte) error {
	var a AddressState
	var local, peer netip.Addr
	var flags uint32
	err := attributes(data, unix.SizeofIfAddrmsg, func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case unix.IFA_LOCAL:
			local, _ = netip.AddrFromSlice(ad.Bytes())
		case unix.IFA_ADDRESS:
			peer, _ = netip.AddrFromSlice(ad.Bytes())
		case unix.IFA_FLAGS:
			flags = ad.Uint32()
		case unix.IFA_LABEL:
			a.Label = ad.String()
		case ifaProto:
			a.Proto = int(ad.Uint8())
		case unix.IFA_CACHEINFO:
			if info := ad.Bytes(); len(info) >= 8 {
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

// decodeRoute keeps routes with one next hop at most; others are never ours.
// What the kernel derives from addresses to receive broadcasts and the like is
// left out: it is most of the list.
func decodeRoute(s *State, data []byte) error {
	if len(data) < unix.SizeofRtMsg {
		return errShort
	}
	kind := int(data[7])
	if data[5] == unix.RTPROT_KERNEL && kind != unix.RTN_UNICAST && kind != unix.RTN_LOCAL || kind >= len(routeWords) || kind == unix.RTN_UNSPEC {
		return nil
	}
	var r RouteState
	var to netip.Addr
	multipath := false
	err := attributes(data, unix.SizeofRtMsg, func(ad *netlink.AttributeDecoder) {
		switch ad.Type() {
		case unix.RTA_DST:
			to, _ = netip.AddrFromSlice(ad.Bytes())
		case unix.RTA_GATEWAY:
			r.Via, _ = netip.AddrFromSlice(ad.Bytes())
		case unix.RTA_PREFSRC:
			r.From, _ = netip.AddrFromSlice(ad.Bytes())
		case unix.RTA_OIF:
			r.Link = int(ad.Uint32())
		case unix.RTA_PRIORITY:
			r.Metric = int(ad.Uint32())
		case unix.RTA_TABLE:
			r.Table = int(ad.Uint32())
		case unix.RTA_MULTIPATH:
			multipath = true
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
	} else if multipath || r.Link == 0 {
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
	s.Routes = append(s.Routes, r)
	return nil
}

func decodeMetrics(r *Route, ad *netlink.AttributeDecoder) {
	nested(ad, func(in *netlink.AttributeDecoder) {
		switch in.Type() {
		case unix.RTAX_MTU:
			r.MTU = int(in.Uint32())
		case unix.RTAX_ADVMSS:
			r.AdvertisedMSS = int(in.Uint32())
		case unix.RTAX_INITCWND:
			r.CongestionWindow = int(in.Uint32())
		case unix.RTAX_INITRWND:
			r.AdvertisedReceive = int(in.Uint32())
		}
	})
}

// readDrivers asks ethtool for the driver of each NIC; one that has none to
// tell is matched by other means.
func readDrivers(links []LinkState) {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	for i := range links {
		if slices.Contains(stacked, links[i].Kind) {
			continue
		}
		if info, err := unix.IoctlGetEthtoolDrvinfo(fd, links[i].Name); err == nil {
			links[i].Driver = unix.ByteSliceToString(info.Driver[:])
		}
	}
}
