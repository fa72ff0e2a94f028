package netcfg

import (
	"context"
	"encoding/binary"
	"net"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"
)

// Numbers of the kernel's headers that x/sys has not.
const (
	rtextSkipStats = 8 // RTEXT_FILTER_SKIP_STATS

	operUnknown = 0 // IF_OPER_UNKNOWN: a device that has no such state
	operUp      = 6 // IF_OPER_UP
)

// setLink changes attributes and no flags: a whole flag word would undo what
// somebody else changed since.
func (k *kernel) setLink(ctx context.Context, index int, encode func(*attrs)) error {
	return k.nl.write(ctx, unix.RTM_NEWLINK, 0, ifInfo(index, 0, 0), encode)
}

func (k *kernel) create(ctx context.Context, op Op) error {
	err := k.nl.write(ctx, unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, ifInfo(0, 0, 0), func(ae *attrs) {
		ae.String(unix.IFLA_IFNAME, op.Link)
		if op.Other != "" {
			ae.Uint32(unix.IFLA_LINK, uint32(k.index[op.Other]))
		}
		for _, s := range op.Settings {
			if s.Name == "mac" {
				ae.Bytes(unix.IFLA_ADDRESS, macBytes(s.Value))
			}
		}
		ae.Nested(unix.IFLA_LINKINFO, func(in *attrs) error {
			in.String(unix.IFLA_INFO_KIND, op.Kind)
			if op.Kind != string(kindDummy) {
				in.Nested(unix.IFLA_INFO_DATA, func(data *attrs) error {
					return k.deviceData(data, deviceKind(op.Kind), op.Settings)
				})
			}
			return nil
		})
	})
	if err != nil {
		return err
	}
	k.index[op.Link], err = k.indexOf(op.Link)
	return err
}

// indexOf asks for the index of a device that was just made, by the request
// that has the shortest answer: a device's whole state is some 2 KiB.
func (k *kernel) indexOf(name string) (int, error) {
	ifr, err := unix.NewIfreq(name)
	if err != nil {
		return 0, err
	}
	if err := unix.IoctlIfreq(k.ioctl, unix.SIOCGIFINDEX, ifr); err != nil {
		return 0, err
	}
	return int(ifr.Uint32()), nil
}

func (k *kernel) deviceData(ae *attrs, kind deviceKind, settings []Setting) error {
	for _, s := range settings {
		var err error
		switch {
		case s.Name == "mac":
		case kind == kindVLAN && s.Name == "id":
			err = number(ae, unix.IFLA_VLAN_ID, 2, s.Value)
		case kind == kindBridge:
			err = bridgeData(ae, bridgeAttrs, s)
		default:
			err = k.bondOption(ae, s)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// number encodes an unsigned number of that many bytes.
func number(ae *attrs, attr uint16, size int, value string) error {
	n, err := strconv.ParseUint(value, 10, 8*size)
	if err != nil {
		return err
	}
	switch size {
	case 1:
		ae.Uint8(attr, uint8(n))
	case 2:
		ae.Uint16(attr, uint16(n))
	default:
		ae.Uint32(attr, uint32(n))
	}
	return nil
}

// set changes one attribute of a link.
func (k *kernel) set(ctx context.Context, index int, op Op) error {
	s := op.Settings[0]
	switch deviceKind(op.Kind) {
	case kindBond, kindBridge:
		return k.setInfo(ctx, index, unix.IFLA_INFO_KIND, op.Kind, unix.IFLA_INFO_DATA, func(ae *attrs) error {
			return k.deviceData(ae, deviceKind(op.Kind), op.Settings)
		})
	case kindBridgePort:
		return k.setInfo(ctx, index, unix.IFLA_INFO_SLAVE_KIND, string(kindBridge), unix.IFLA_INFO_SLAVE_DATA, func(ae *attrs) error {
			return bridgeData(ae, brportAttrs, s)
		})
	}
	switch s.Name {
	case "mtu":
		mtu, err := strconv.ParseUint(s.Value, 10, 32)
		if err != nil {
			return err
		}
		return k.setLink(ctx, index, func(ae *attrs) { ae.Uint32(unix.IFLA_MTU, uint32(mtu)) })
	case "mac":
		return k.setLink(ctx, index, func(ae *attrs) { ae.Bytes(unix.IFLA_ADDRESS, macBytes(s.Value)) })
	case "token":
		return k.setToken(ctx, index, s.Value)
	case "wake_on_lan":
		return k.setWakeOnLAN(index, s.Value)
	}
	return setSysctl(op.Link, s)
}

// setInfo changes what is particular to the link's kind, or to that of its master.
func (k *kernel) setInfo(ctx context.Context, index int, kindAttr uint16, kind string, dataAttr uint16, encode func(*attrs) error) error {
	return k.setLink(ctx, index, func(ae *attrs) {
		ae.Nested(unix.IFLA_LINKINFO, func(in *attrs) error {
			in.String(kindAttr, kind)
			in.Nested(dataAttr, encode)
			return nil
		})
	})
}

// macBytes is of an address that Parse or the kernel made.
func macBytes(s string) []byte {
	mac, err := net.ParseMAC(s)
	if err != nil {
		return nil
	}
	return mac
}

func linkDumpRequest() []byte {
	mask := attrs{b: ifInfo(0, 0, 0)}
	mask.Uint32(unix.IFLA_EXT_MASK, rtextSkipStats)
	return mask.b
}

func decodeLink(s *State, data []byte) error {
	l := LinkState{NoIPv6: true}
	oper := operUnknown
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
	l.Settling = l.Carrier && oper != operUnknown && oper != operUp
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
