package netcfg

import (
	"net/netip"
	"slices"
	"time"

	"reveille/netcfg/dhcp6"
)

// leaseOfV6 is a DHCPv6 lease in the planner's terms. Addresses are of one
// machine each: what else is on the link is a router's to say (RFC 5942).
func leaseOfV6(l *dhcp6.Lease) *lease {
	if l == nil {
		return nil
	}
	out := &lease{server: l.From.String(), dns: l.DNS, ntp: l.NTP, search: l.Search, renew: l.Renew, expire: l.Expire}
	for _, a := range l.Addresses {
		out.addresses = append(out.addresses, leasedAddress{netip.PrefixFrom(a.IP, 128), a.Preferred, a.Valid})
	}
	return out
}

// clientV6 is a protocol.
type clientV6 struct {
	*dhcp6.Client
	listen func(index int, name string) (dhcp6.Link, error)
}

// v6 is who a DHCPv6 lease is for.
func (id identity) v6() []byte { return slices.Concat(id.iaid[:], id.duid) }

func (k *keeper) startV6(c *leaseClient, id identity) {
	c.id = id.v6()
	var lease *dhcp6.Lease
	if saved := new(dhcp6.Lease); k.store.load(c.file, c.id, saved) {
		lease = saved
		c.kept = saved
	}
	cfg := dhcp6.Config{DUID: id.duid, IAID: id.iaid}
	c.protocol = clientV6{dhcp6.NewClient(cfg, lease, k.env.now, k.changed), k.env.listen6}
}

func (c clientV6) up(d *LinkState, resumed bool) error {
	link, err := c.listen(d.Index, d.Name)
	if err != nil {
		return err
	}
	c.Up(link, resumed, d.stateless())
	return nil
}

func (c clientV6) down()                  { c.Down() }
func (c clientV6) close()                 { c.Close() }
func (c clientV6) conflict(ip netip.Addr) { c.Conflict(ip) }

func (c clientV6) status(now time.Duration) clientStatus {
	s := c.Status()
	return statusOfClient(s, leaseOfV6(s.Lease), now)
}

// stateless reports whether the link's routers give addresses themselves and
// leave only the rest to DHCPv6 (RFC 4861, section 4.2).
func (d *LinkState) stateless() bool { return d.RAOther && !d.RAManaged }

// readyForV6 reports whether a socket can speak from the interface's own
// address, without which DHCPv6 cannot.
func (p *planner) readyForV6(index int) bool {
	return slices.ContainsFunc(p.addressesOf[index], func(a AddressState) bool {
		return a.Prefix.Addr().Is6() && a.Prefix.Addr().IsLinkLocalUnicast() && !a.Tentative && !a.DADFailed
	})
}

// tendV6 tells the client of what only IPv6 has: addresses of the lease that
// somebody else has too, and routers that came late, or changed, in whether they
// give addresses themselves. A lease that has addresses outlives that.
func (c *leaseClient) tendV6(d *LinkState, p *planner) {
	client, ok := c.protocol.(clientV6)
	if !ok || !c.running {
		return
	}
	for _, a := range p.addressesOf[d.Index] {
		if a.DADFailed && !a.Prefix.Addr().IsLinkLocalUnicast() {
			client.conflict(a.Prefix.Addr())
		}
	}
	lease := client.Status().Lease
	if d.stateless() != c.stateless && (lease == nil || len(lease.Addresses) == 0) {
		c.down()
		c.running = false
	}
}
