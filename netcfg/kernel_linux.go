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
	switch op.Verb {
	case OpResolvConf:
		return writeFile(k.resolvConf, op.File)
	case OpHosts:
		return writeFile(k.hosts, op.File)
	case OpSysctl:
		return k.sysctls.write(Sysctl{op.Settings[0].Name, op.Settings[0].Value})
	case OpCreate:
		return k.create(ctx, op)
	}
	index, ok := k.index[op.Link]
	if !ok && op.Link != "" { // a rule, and a route that refuses, have no link
		return unix.ENODEV
	}
	switch op.Verb {
	case OpAddAddress, OpReplaceAddress, OpDeleteAddress:
		return k.address(ctx, index, op)
	case OpAddRoute, OpReplaceRoute, OpDeleteRoute:
		return k.route(ctx, index, op)
	case OpAddRule, OpDeleteRule:
		return k.rule(ctx, op)
	case OpSet:
		return k.set(ctx, index, op)
	}
	return k.link(ctx, index, op)
}
