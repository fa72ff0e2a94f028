package netcfg

import (
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

// Numbers of the kernel's headers that x/sys has not.
const (
	rtextSkipStats = 8 // RTEXT_FILTER_SKIP_STATS

	operUnknown = 0 // IF_OPER_UNKNOWN: a device that has no such state, or none yet
	operUp      = 6 // IF_OPER_UP
)

func linkDumpRequest() []byte {
	mask := attrs{b: ifInfo(0, 0, 0)}
	mask.Uint32(unix.IFLA_EXT_MASK, rtextSkipStats)
	return mask.b
}

func decodeLink(s *State, data []byte) error {
	l := LinkState{NoIPv6: true}
	oper, carrierChanges := operUnknown, 0
	err := attributes(data, unix.SizeofIfInfomsg, func(ad attribute) {
		switch ad.Type {
		case unix.IFLA_IFNAME:
			l.Name = ad.text()
		case unix.IFLA_ADDRESS:
			l.MAC = macString(ad.data)
		case unix.IFLA_PERM_ADDRESS:
			l.PermMAC = macString(ad.data)
		case unix.IFLA_OPERSTATE:
			oper = ad.number()
		case unix.IFLA_CARRIER_CHANGES:
			carrierChanges = ad.number()
		case unix.IFLA_MTU:
			l.MTU = ad.number()
		case unix.IFLA_MAX_MTU:
			l.MaxMTU = ad.number()
		case unix.IFLA_LINK:
			l.Parent = ad.number()
		case unix.IFLA_MASTER:
			l.Master = ad.number()
		case unix.IFLA_PROP_LIST:
			ad.nested(func(in attribute) {
				if in.Type == unix.IFLA_ALT_IFNAME {
					l.AltNames = append(l.AltNames, in.text())
				}
			})
		case unix.IFLA_LINKINFO:
			decodeLinkInfo(&l, ad)
		case unix.IFLA_AF_SPEC:
			ad.nested(func(in attribute) {
				if in.Type == unix.AF_INET6 {
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
	// A device whose carrier ever changed gets a state soon after
	// (netif_carrier_on, net/sched/sch_generic.c; rfc2863_policy,
	// net/core/link_watch.c); one that always has it keeps none.
	l.Settling = l.Carrier && oper != operUp && (oper != operUnknown || carrierChanges > 0)
	s.Links = append(s.Links, l)
	return nil
}

// decodeLinkInfo relies on the kind coming before the data, as
// rtnl_link_info_fill (net/core/rtnetlink.c) writes them.
func decodeLinkInfo(l *LinkState, ad attribute) {
	slaveKind := ""
	ad.nested(func(in attribute) {
		switch in.Type {
		case unix.IFLA_INFO_KIND:
			l.Kind = in.text()
		case unix.IFLA_INFO_SLAVE_KIND:
			slaveKind = in.text()
		case unix.IFLA_INFO_DATA:
			switch deviceKind(l.Kind) {
			case kindVLAN:
				in.nested(func(v attribute) {
					if v.Type == unix.IFLA_VLAN_ID {
						l.VLAN = v.number()
					}
				})
			case kindBond:
				l.Bond = BondOptions{}
				in.nested(func(v attribute) {
					decodeBondOption(l.Bond, v)
					decodeLACP(&l.LACP, v)
				})
			case kindBridge:
				decodeBridge(l, in)
			}
		case unix.IFLA_INFO_SLAVE_DATA:
			switch deviceKind(slaveKind) {
			case kindBond:
				in.nested(func(v attribute) { decodePort(l, v) })
			case kindBridge:
				l.BridgePort = decodeOptions(in, brportAttrs, nil)
			}
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
