package cluster

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strconv"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/protobuf/proto"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/identity"
)

// register puts this controller's addresses into the directory, and signs a
// new generation if that changes it. Everybody who changes a controller's
// entry changes the directory in the same transaction, so its revision guards
// the whole set.
func register(ctx context.Context, s *store, a *identity.Authority, self *clusterv1.Controller) (*clusterv1.Directory, error) {
	var current *clusterv1.Directory
	err := transact(ctx, func() error {
		signed := &record{key: directoryKey, msg: new(clusterv1.SignedDirectory)}
		if err := s.load(ctx, signed); err != nil {
			return err
		}
		others, err := s.controllers(ctx)
		if err != nil {
			return err
		}
		if current, err = storedDirectory(signed, a); err != nil {
			return err
		}
		want := withController(others, self)
		if equalControllers(current.GetControllers(), want) {
			return nil
		}
		current = newDirectory(current.GetGeneration()+1, a, want)
		next, err := identity.SignDirectory(current, a.Key)
		if err != nil {
			return err
		}
		entry := &record{key: controllersKey + self.GetName(), msg: self}
		return s.save(ctx, []*record{signed}, []*record{{key: directoryKey, msg: next}, entry}, nil)
	})
	if err != nil {
		return nil, fmt.Errorf("register controller %s: %w", self.GetName(), err)
	}
	return current, nil
}

func newDirectory(generation uint64, a *identity.Authority, controllers []*clusterv1.Controller) *clusterv1.Directory {
	pin := identity.PinOf(a.Certificate)
	return &clusterv1.Directory{Generation: generation, CaSha256: hex.EncodeToString(pin[:]), Controllers: controllers}
}

// storedDirectory is what the store holds, nil when nothing. One that does not
// verify is an error: overwriting it could take the generation backwards.
func storedDirectory(signed *record, a *identity.Authority) (*clusterv1.Directory, error) {
	if !signed.exists() {
		return nil, nil
	}
	return identity.VerifyDirectory(signed.msg.(*clusterv1.SignedDirectory), a.Certificate)
}

func (s *store) controllers(ctx context.Context) ([]*clusterv1.Controller, error) {
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	resp, err := s.kv.Get(ctx, controllersKey, clientv3.WithPrefix())
	if err != nil {
		return nil, fmt.Errorf("list controllers: %w: %w", errEtcd, err)
	}
	var all []*clusterv1.Controller
	for _, kv := range resp.Kvs {
		c := new(clusterv1.Controller)
		if err := proto.Unmarshal(kv.Value, c); err != nil {
			return nil, fmt.Errorf("list controllers: decode %s: %w", kv.Key, err)
		}
		all = append(all, c)
	}
	return all, nil
}

// withController is the set in which self has replaced the entry of its name.
func withController(all []*clusterv1.Controller, self *clusterv1.Controller) []*clusterv1.Controller {
	next := []*clusterv1.Controller{self}
	for _, c := range all {
		if c.GetName() != self.GetName() {
			next = append(next, c)
		}
	}
	slices.SortFunc(next, func(a, b *clusterv1.Controller) int { return cmp.Compare(a.GetName(), b.GetName()) })
	return next
}

func equalControllers(a, b []*clusterv1.Controller) bool {
	return slices.EqualFunc(a, b, func(x, y *clusterv1.Controller) bool { return proto.Equal(x, y) })
}

// A node dials all of them, so a host with hundreds of addresses (containers)
// must name the right ones with --advertise.
const maxInterfaceAddresses = 8

// advertised is what the directory says of this controller: the addresses
// asked for (port 0 means the bound one), else the address it listens on, else,
// when that is unspecified, those of the host's interfaces.
func advertised(asked []string, bound netip.AddrPort, interfaces []netip.Addr) ([]string, error) {
	port := strconv.Itoa(int(bound.Port()))
	var addrs []string
	for _, addr := range asked {
		if host, p, err := net.SplitHostPort(addr); err == nil && p == "0" {
			addr = net.JoinHostPort(host, port)
		}
		addrs = append(addrs, addr)
	}
	if len(addrs) == 0 && !bound.Addr().IsUnspecified() {
		addrs = []string{bound.String()}
	}
	if len(addrs) == 0 {
		for _, ip := range interfaces[:min(len(interfaces), maxInterfaceAddresses)] {
			addrs = append(addrs, net.JoinHostPort(ip.String(), port))
		}
	}
	if len(addrs) == 0 {
		return nil, fmt.Errorf("choose addresses to advertise: no interface has one; give --advertise HOST:PORT")
	}
	for _, addr := range addrs {
		if err := identity.CheckAddress(addr); err != nil {
			return nil, fmt.Errorf("choose addresses to advertise: %w", err)
		}
	}
	return addrs, nil
}

// operatorEndpoints are where this controller's operator finds it: on this
// machine first, which works even where the advertised address exists only for
// nodes (behind a NAT, in a virtual machine's network).
func operatorEndpoints(bound netip.AddrPort, advertised []string) []string {
	local := bound.String()
	if bound.Addr().IsUnspecified() {
		local = net.JoinHostPort("localhost", strconv.Itoa(int(bound.Port())))
	}
	all := []string{local}
	for _, addr := range advertised {
		if addr != local {
			all = append(all, addr)
		}
	}
	return all
}

// interfaceAddresses lists the host's global addresses; a host that has none
// but loopback serves its own virtual machines at best, so then that.
func interfaceAddresses() ([]netip.Addr, error) {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil, fmt.Errorf("list interface addresses: %w", err)
	}
	var global, loopback []netip.Addr
	for _, a := range all {
		prefix, err := netip.ParsePrefix(a.String())
		switch ip := prefix.Addr(); {
		case err != nil:
		case ip.IsLoopback():
			loopback = append(loopback, ip)
		case ip.IsGlobalUnicast():
			global = append(global, ip)
		}
	}
	if len(global) == 0 {
		return loopback, nil
	}
	return global, nil
}
