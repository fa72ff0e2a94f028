package netcfg

import (
	"context"
	"errors"
	"fmt"

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
		err := k.setLink(ctx, index, func(ae *attrs) { ae.String(unix.IFLA_IFNAME, op.Other) })
		if err == nil {
			delete(k.index, op.Link)
			k.index[op.Other] = index
		}
		return err
	case OpDropAltName, OpAddAltName:
		// No flags: what is NLM_F_EXCL elsewhere is NLM_F_BULK in a deletion since
		// Linux 5.19, and refused in this one.
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
	case OpUp:
		return k.nl.write(ctx, unix.RTM_NEWLINK, 0, ifInfo(index, unix.IFF_UP, unix.IFF_UP), none)
	case OpDown:
		return k.nl.write(ctx, unix.RTM_NEWLINK, 0, ifInfo(index, 0, unix.IFF_UP), none)
	case OpEnslave:
		master, ok := k.index[op.Other]
		if !ok {
			return unix.ENODEV
		}
		return k.setLink(ctx, index, func(ae *attrs) { ae.Uint32(unix.IFLA_MASTER, uint32(master)) })
	case OpRelease:
		return k.setLink(ctx, index, func(ae *attrs) { ae.Uint32(unix.IFLA_MASTER, 0) })
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

func none(*attrs) {}
