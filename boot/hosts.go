package boot

import (
	"context"
	"net"
	"net/netip"
	"slices"

	"google.golang.org/protobuf/proto"

	"reveille/boot/cluster/clusterv1"
	"reveille/netcfg"
)

const hostsFile = "/etc/hosts"

// keepHosts has the hosts file name this node and its controllers, also when
// its addresses change.
func (n *Node) keepHosts(ctx context.Context) error {
	for {
		own := n.net.Status().Addresses
		n.net.SetHosts(n.hosts(own))
		err := n.net.WaitFor(ctx, func(s netcfg.Status) bool { return !slices.Equal(s.Addresses, own) })
		if err != nil {
			return err
		}
	}
}

func (n *Node) hosts(own []netip.Addr) []netcfg.Host {
	var list []netcfg.Host
	for _, a := range own {
		list = append(list, netcfg.Host{Addr: a, Names: []string{n.params.Name}})
	}
	var d clusterv1.Directory
	if err := proto.Unmarshal(n.opened.now().Directory, &d); err != nil {
		return list // it was verified before it was stored
	}
	return append(list, controllerHosts(&d)...)
}

// controllerHosts is those of the directory that have a number to be named by.
func controllerHosts(d *clusterv1.Directory) (list []netcfg.Host) {
	for _, c := range d.GetControllers() {
		for _, address := range c.GetAddresses() {
			host, _, err := net.SplitHostPort(address)
			if err != nil {
				continue
			}
			if a, err := netip.ParseAddr(host); err == nil {
				list = append(list, netcfg.Host{Addr: a, Names: []string{c.GetName()}})
			}
		}
	}
	return list
}
