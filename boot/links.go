package boot

import (
	"cmp"

	"reveille/boot/cluster/clusterv1"
	"reveille/netcfg"
)

// maxLinks bounds what a heartbeat has of a node's links; the controller keeps
// as many. A node with more has vlans by the hundred, of which those with a
// problem come first.
const maxLinks = 16

// links is the network link by link for a heartbeat, and how many are left out.
func links(s netcfg.Status) (out []*clusterv1.LinkStatus, more uint32) {
	for _, wantTrouble := range []bool{true, false} {
		for _, l := range s.Links {
			if (l.Problem != "") != wantTrouble {
				continue
			}
			if len(out) == maxLinks {
				more++
				continue
			}
			out = append(out, linkStatus(l, s.Leases))
		}
	}
	return out, more
}

func linkStatus(l netcfg.LinkStatus, leases []netcfg.LeaseStatus) *clusterv1.LinkStatus {
	s := &clusterv1.LinkStatus{
		Name: cmp.Or(l.Name, l.ID), Kind: l.Kind, Mac: l.MAC, Mtu: uint32(l.MTU), Up: l.Up, Carrier: l.Carrier,
		Mode: l.Mode, LacpActor: l.LACP.Actor, LacpPartner: l.LACP.Partner, Aggregator: uint32(l.LACP.Aggregator),
		Problem: l.Problem,
	}
	for _, a := range l.Addresses {
		if len(s.Addresses) == maxLinks {
			break
		}
		s.Addresses = append(s.Addresses, &clusterv1.LinkAddress{Prefix: a.Prefix.String(), State: a.State, Wanted: a.Wanted})
	}
	for _, lease := range leases {
		if lease.Interface == l.Name {
			s.Leases = append(s.Leases, lease.String())
		}
	}
	for _, p := range l.Ports {
		s.Ports = append(s.Ports, &clusterv1.LinkPort{
			Name: cmp.Or(p.Name, p.ID), Carrier: p.Carrier, InUse: p.Working,
			LacpPartner: p.PartnerMAC, Aggregator: uint32(p.Aggregator), Churned: p.Churned,
			Speed: uint32(p.Speed), CarrierLosses: uint32(p.Failures),
		})
	}
	return s
}
