package netcfg

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

// kernel carries operations out. It chooses nothing.
type kernel struct {
	nl         *rtnl
	ioctl      int // a socket to ask about interfaces by ioctl
	resolvConf string
	hosts      string // file, "" when not ours
	sysctls    sysctlFiles
	index      map[string]int // of the last observation and what was made since
}

// openKernel works on the network namespace of the calling thread.
func openKernel(resolvConf string) (*kernel, error) {
	nl, err := dialRTNL()
	if err != nil {
		return nil, err
	}
	ioctl, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open a socket for ioctl: %w", err), nl.close())
	}
	return &kernel{nl: nl, ioctl: ioctl, resolvConf: resolvConf}, nil
}

func (k *kernel) Close() error { return errors.Join(k.nl.close(), unix.Close(k.ioctl)) }

func (k *kernel) Observe(ctx context.Context) (State, error) {
	s, err := k.nl.observe(ctx, k.resolvConf)
	if err != nil {
		return s, err
	}
	s.Sysctls = k.sysctls.read()
	if s.Hosts, err = readText(k.hosts); err != nil {
		return s, fmt.Errorf("read hosts: %w", err)
	}
	k.index = map[string]int{}
	for _, l := range s.Links {
		k.index[l.Name] = l.Index
	}
	return s, nil
}

// Apply does one operation; its error begins with the operation.
func (k *kernel) Apply(ctx context.Context, op Op) error {
	if err := k.apply(ctx, op); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

func (k *kernel) apply(ctx context.Context, op Op) error {
	if op.Verb == OpResolvConf {
		return writeFile(k.resolvConf, op.File)
	}
	if op.Verb == OpHosts {
		return writeFile(k.hosts, op.File)
	}
	if op.Verb == OpSysctl {
		return k.sysctls.write(Sysctl{op.Settings[0].Name, op.Settings[0].Value})
	}
	if op.Verb == OpCreate {
		return k.create(ctx, op)
	}
	index, ok := k.index[op.Link]
	if !ok && op.Link != "" { // a rule, and a route that refuses, have no link
		return unix.ENODEV
	}
	switch op.Verb {
	case OpDelete:
		return k.nl.write(ctx, unix.RTM_DELLINK, 0, ifInfo(index, 0, 0), none)
	case OpRename:
		err := k.setLink(ctx, index, func(ae *netlink.AttributeEncoder) { ae.String(unix.IFLA_IFNAME, op.Other) })
		if err == nil {
			delete(k.index, op.Link)
			k.index[op.Other] = index
		}
		return err
	case OpDropAltName, OpAddAltName:
		// No flags: what is NLM_F_EXCL elsewhere is NLM_F_BULK in a deletion since
		// Linux 5.19, and refused in this one.
		typ, flags := netlink.HeaderType(unix.RTM_DELLINKPROP), netlink.HeaderFlags(0)
		if op.Verb == OpAddAltName {
			typ, flags = unix.RTM_NEWLINKPROP, netlink.Create|netlink.Excl|netlink.Append
		}
		return k.nl.write(ctx, typ, flags, ifInfo(index, 0, 0), func(ae *netlink.AttributeEncoder) {
			ae.Nested(unix.IFLA_PROP_LIST, func(in *netlink.AttributeEncoder) error {
				in.String(unix.IFLA_ALT_IFNAME, op.Other)
				return nil
			})
		})
	case OpUp:
		return k.nl.write(ctx, unix.RTM_NEWLINK, 0, ifInfo(index, unix.IFF_UP, unix.IFF_UP), none)
	case OpDown:
		return k.nl.write(ctx, unix.RTM_NEWLINK, 0, ifInfo(index, 0, unix.IFF_UP), none)
	case OpEnslave:
		master, ok := k.index[op.Other]
		if !ok {
			return unix.ENODEV
		}
		return k.setLink(ctx, index, func(ae *netlink.AttributeEncoder) { ae.Uint32(unix.IFLA_MASTER, uint32(master)) })
	case OpRelease:
		return k.setLink(ctx, index, func(ae *netlink.AttributeEncoder) { ae.Uint32(unix.IFLA_MASTER, 0) })
	case OpSet:
		return k.set(ctx, index, op)
	case OpAddAddress, OpReplaceAddress, OpDeleteAddress:
		return k.address(ctx, index, op)
	case OpAddRoute, OpReplaceRoute, OpDeleteRoute:
		return k.route(ctx, index, op)
	case OpAddRule, OpDeleteRule:
		return k.rule(ctx, op)
	}
	return fmt.Errorf("unknown operation %q", op.Verb)
}

func none(*netlink.AttributeEncoder) {}

// setLink changes attributes and no flags: a whole flag word would undo what
// somebody else changed since.
func (k *kernel) setLink(ctx context.Context, index int, encode func(*netlink.AttributeEncoder)) error {
	return k.nl.write(ctx, unix.RTM_NEWLINK, 0, ifInfo(index, 0, 0), encode)
}

func (k *kernel) create(ctx context.Context, op Op) error {
	err := k.nl.write(ctx, unix.RTM_NEWLINK, netlink.Create|netlink.Excl, ifInfo(0, 0, 0), func(ae *netlink.AttributeEncoder) {
		ae.String(unix.IFLA_IFNAME, op.Link)
		if op.Other != "" {
			ae.Uint32(unix.IFLA_LINK, uint32(k.index[op.Other]))
		}
		for _, s := range op.Settings {
			if s.Name == "mac" {
				ae.Bytes(unix.IFLA_ADDRESS, macBytes(s.Value))
			}
		}
		ae.Nested(unix.IFLA_LINKINFO, func(in *netlink.AttributeEncoder) error {
			in.String(unix.IFLA_INFO_KIND, op.Kind)
			if op.Kind != string(kindDummy) {
				in.Nested(unix.IFLA_INFO_DATA, func(data *netlink.AttributeEncoder) error {
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

func (k *kernel) deviceData(ae *netlink.AttributeEncoder, kind deviceKind, settings []Setting) error {
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

func bridgeData(ae *netlink.AttributeEncoder, options []bridgeAttr, s Setting) error {
	o := attrNamed(options, s.Name)
	if o == nil {
		return fmt.Errorf("no bridge option %q", s.Name)
	}
	return number(ae, o.attr, o.size, s.Value)
}

// number encodes an unsigned number of that many bytes.
func number(ae *netlink.AttributeEncoder, attr uint16, size int, value string) error {
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

func (k *kernel) bondOption(ae *netlink.AttributeEncoder, s Setting) error {
	o := bondOptionNamed(s.Name)
	switch {
	case o == nil:
		return fmt.Errorf("no bond option %q", s.Name)
	case o.name == "arp_ip_target":
		ae.Nested(o.attr, func(in *netlink.AttributeEncoder) error {
			for i, t := range strings.FieldsFunc(s.Value, func(r rune) bool { return r == ',' }) {
				a, err := netip.ParseAddr(t)
				if err != nil {
					return err
				}
				in.Bytes(uint16(i), a.AsSlice())
			}
			return nil
		})
		return nil
	case o.name == "primary":
		ae.Uint32(o.attr, uint32(k.index[s.Value])) // 0 clears it
		return nil
	}
	n, err := o.number(s.Value)
	if err != nil {
		return err
	}
	if o.size == 1 {
		ae.Uint8(o.attr, uint8(n))
	} else {
		ae.Uint32(o.attr, n)
	}
	return nil
}

// set changes one attribute of a link.
func (k *kernel) set(ctx context.Context, index int, op Op) error {
	s := op.Settings[0]
	switch deviceKind(op.Kind) {
	case kindBond, kindBridge:
		return k.setInfo(ctx, index, unix.IFLA_INFO_KIND, op.Kind, unix.IFLA_INFO_DATA, func(ae *netlink.AttributeEncoder) error {
			return k.deviceData(ae, deviceKind(op.Kind), op.Settings)
		})
	case kindBridgePort:
		return k.setInfo(ctx, index, unix.IFLA_INFO_SLAVE_KIND, string(kindBridge), unix.IFLA_INFO_SLAVE_DATA, func(ae *netlink.AttributeEncoder) error {
			return bridgeData(ae, brportAttrs, s)
		})
	}
	switch s.Name {
	case "mtu":
		mtu, err := strconv.ParseUint(s.Value, 10, 32)
		if err != nil {
			return err
		}
		return k.setLink(ctx, index, func(ae *netlink.AttributeEncoder) { ae.Uint32(unix.IFLA_MTU, uint32(mtu)) })
	case "mac":
		return k.setLink(ctx, index, func(ae *netlink.AttributeEncoder) { ae.Bytes(unix.IFLA_ADDRESS, macBytes(s.Value)) })
	case "token":
		return k.setToken(ctx, index, s.Value)
	case "wake_on_lan":
		return k.setWakeOnLAN(index, s.Value)
	}
	return setSysctl(op.Link, s)
}

// setInfo changes what is particular to the link's kind, or to that of its master.
func (k *kernel) setInfo(ctx context.Context, index int, kindAttr uint16, kind string, dataAttr uint16, encode func(*netlink.AttributeEncoder) error) error {
	return k.setLink(ctx, index, func(ae *netlink.AttributeEncoder) {
		ae.Nested(unix.IFLA_LINKINFO, func(in *netlink.AttributeEncoder) error {
			in.String(kindAttr, kind)
			in.Nested(dataAttr, encode)
			return nil
		})
	})
}

func (k *kernel) setToken(ctx context.Context, index int, token string) error {
	a, err := netip.ParseAddr(token)
	if err != nil {
		return err
	}
	return k.setLink(ctx, index, func(ae *netlink.AttributeEncoder) {
		ae.Nested(unix.IFLA_AF_SPEC, func(in *netlink.AttributeEncoder) error {
			in.Nested(unix.AF_INET6, func(inet6 *netlink.AttributeEncoder) error {
				inet6.Bytes(unix.IFLA_INET6_TOKEN, a.AsSlice())
				return nil
			})
			return nil
		})
	})
}

// linkSysctls is the IPv6 settings of a link that are files, by our names.
var linkSysctls = map[string]string{
	"accept_ra":     "accept_ra",
	"addr_gen_mode": "addr_gen_mode",
	"disable_ipv6":  "disable_ipv6",
	"ipv6_mtu":      "mtu",
	"stable_secret": "stable_secret",
	"use_tempaddr":  "use_tempaddr",
}

// setSysctl writes a setting that is a file. Its path is built with slashes, so
// a dotted name like bond0.100 is one element of it.
func setSysctl(link string, s Setting) error {
	file, ok := linkSysctls[s.Name]
	if !ok {
		return fmt.Errorf("no setting %q", s.Name)
	}
	value := s.Value
	if s.Name == "stable_secret" {
		secret, err := stableSecret(link)
		if err != nil {
			return err
		}
		value = secret
	}
	return os.WriteFile(filepath.Join("/proc/sys/net/ipv6/conf", link, file), []byte(value+"\n"), 0)
}

// macBytes is of an address that Parse or the kernel made.
func macBytes(s string) []byte {
	mac, err := net.ParseMAC(s)
	if err != nil {
		return nil
	}
	return mac
}

func (k *kernel) address(ctx context.Context, index int, op Op) error {
	typ, flags := netlink.HeaderType(unix.RTM_NEWADDR), netlink.Create|netlink.Excl
	switch op.Verb {
	case OpReplaceAddress:
		flags = netlink.Replace
	case OpDeleteAddress:
		typ, flags = unix.RTM_DELADDR, 0
	}
	addr := op.Address.Addr()
	return k.nl.write(ctx, typ, flags, ifAddr(op.Address, index), func(ae *netlink.AttributeEncoder) {
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

func (k *kernel) route(ctx context.Context, index int, op Op) error {
	r, proto := op.Route, ownProto
	typ, flags := netlink.HeaderType(unix.RTM_NEWROUTE), netlink.Create|netlink.Excl
	switch {
	case op.Verb == OpReplaceRoute:
		flags = netlink.Create | netlink.Replace
	case op.Verb == OpDeleteRoute:
		typ, flags, proto = unix.RTM_DELROUTE, 0, op.Proto
	case r.To.Addr().Is6():
		// Beside a router advertisement's route of the same metric.
		flags = netlink.Create | netlink.Append
	}
	return k.nl.write(ctx, typ, flags, rtMsg(r, proto), func(ae *netlink.AttributeEncoder) {
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
		ae.Nested(unix.RTA_METRICS, func(in *netlink.AttributeEncoder) error {
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

// writeFile replaces a file whole: readers see the old or the new text, also
// when the disk is full or the power fails.
func writeFile(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // after the rename there is nothing to remove
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
