package netcfg

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"golang.org/x/sys/unix"
)

// link does what concerns a link that is there, but for its settings.
func (k *kernel) link(ctx context.Context, index int, op Op) error {
	switch op.Verb {
	case OpDelete:
		return k.nl.write(ctx, unix.RTM_DELLINK, 0, ifInfo(index, 0, 0), none)
	case OpUp:
		return k.nl.write(ctx, unix.RTM_NEWLINK, 0, ifInfo(index, unix.IFF_UP, unix.IFF_UP), none)
	case OpDown:
		return k.nl.write(ctx, unix.RTM_NEWLINK, 0, ifInfo(index, 0, unix.IFF_UP), none)
	case OpRename:
		return k.rename(ctx, index, op)
	case OpDropAltName, OpAddAltName:
		return k.altName(ctx, index, op)
	case OpEnslave:
		master, ok := k.index[op.Other]
		if !ok {
			return unix.ENODEV
		}
		return k.setLink(ctx, index, func(ae *attrs) { ae.Uint32(unix.IFLA_MASTER, uint32(master)) })
	case OpRelease:
		return k.setLink(ctx, index, func(ae *attrs) { ae.Uint32(unix.IFLA_MASTER, 0) })
	}
	return fmt.Errorf("unknown operation %q", op.Verb)
}

func (k *kernel) rename(ctx context.Context, index int, op Op) error {
	err := k.setLink(ctx, index, func(ae *attrs) { ae.String(unix.IFLA_IFNAME, op.Other) })
	if err == nil {
		delete(k.index, op.Link)
		k.index[op.Other] = index
	}
	return err
}

// altName has no flags when it deletes: what is NLM_F_EXCL elsewhere is
// NLM_F_BULK in a deletion since Linux 5.19, and refused in this one.
func (k *kernel) altName(ctx context.Context, index int, op Op) error {
	typ, flags := uint16(unix.RTM_DELLINKPROP), uint16(0)
	if op.Verb == OpAddAltName {
		typ, flags = unix.RTM_NEWLINKPROP, unix.NLM_F_CREATE|unix.NLM_F_EXCL|unix.NLM_F_APPEND
	}
	return k.nl.write(ctx, typ, flags, ifInfo(index, 0, 0), func(ae *attrs) {
		ae.Nested(unix.IFLA_PROP_LIST, func(in *attrs) error {
			in.String(unix.IFLA_ALT_IFNAME, op.Other)
			return nil
		})
	})
}

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
