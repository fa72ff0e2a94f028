package netcfg

import (
	"encoding/binary"
	"encoding/hex"
	"hash/fnv"
	"net"
	"slices"
	"strings"
	"time"

	"reveille/netcfg/dhcp4"
)

// leaseOfV4 is a DHCPv4 lease in the planner's terms.
func leaseOfV4(l *dhcp4.Lease) *lease {
	if l == nil {
		return nil
	}
	out := &lease{
		server: l.Server.String(), dns: l.DNS, ntp: l.NTP, hostname: l.Hostname, mtu: l.MTU,
		renew: l.Renew, expire: l.Expire,
		addresses: []leasedAddress{{l.Address, l.Expire, l.Expire}},
	}
	for _, s := range append([]string{l.Domain}, l.Search...) {
		if s != "" {
			out.search = appendNew(out.search, s)
		}
	}
	for _, r := range l.Routes {
		route := Route{To: r.To, Via: r.Via, OnLink: r.OnLink, Table: mainTable, Scope: scopeUniverse}
		if !r.Via.IsValid() {
			route.Scope = scopeLink
		}
		out.routes = append(out.routes, route)
	}
	return out
}

// identity is what a DHCP client calls itself. It depends on the hardware and
// on the document only, so that every boot, from whatever disk, is the same
// client to a server.
type identity struct {
	mac  [6]byte
	duid []byte
	iaid [4]byte
}

// identify is the identity of the interface d. machine is the machine's UUID
// (SMBIOS type 1) as text, which need not make sense.
func identify(l *link, d *LinkState, machine string) identity {
	var id identity
	copy(id.mac[:], macBytes(d.MAC))
	id.duid = duid(machine, macBytes(d.permanentMAC()))
	// RFC 8415, section 12: the same as long as it is the same interface. A NIC
	// is its burned-in MAC whatever the kernel calls it; a bond is its name.
	if l.kind == kindNIC {
		copy(id.iaid[:], macBytes(d.permanentMAC())[2:])
	} else {
		h := fnv.New32a()
		h.Write([]byte(l.name))
		binary.BigEndian.PutUint32(id.iaid[:], h.Sum32())
	}
	return id
}

// duid is RFC 6355's, made of the machine's UUID, as firmware that boots over
// IPv6 must use it; RFC 8415's link-layer address where the vendor left none.
func duid(machine string, mac net.HardwareAddr) []byte {
	if uuid := parseUUID(machine); uuid != nil {
		return append([]byte{0, 4}, uuid...)
	}
	return append([]byte{0, 3, 0, 1}, mac...)
}

// fillers is what boards ship that were never given a UUID, besides all zeros
// and all ones.
var fillers = []string{"03000200-0400-0500-0006-000700080009", "00020003-0004-0005-0006-000700080009"}

// parseUUID is nil for what is not the UUID of one machine.
func parseUUID(s string) []byte {
	s = strings.ToLower(strings.TrimSpace(s))
	b, err := hex.DecodeString(strings.ReplaceAll(s, "-", ""))
	blank := func(c byte) bool { return c == 0 || c == 0xff }
	if err != nil || len(b) != 16 || slices.Contains(fillers, s) || !slices.ContainsFunc(b, func(c byte) bool { return !blank(c) }) {
		return nil
	}
	return b
}

// clientID is option 61.
func (id identity) clientID(by dhcpID) []byte {
	if by == dhcpByMAC {
		return append([]byte{1}, id.mac[:]...) // hardware type Ethernet (RFC 2132, section 9.14)
	}
	return append(append([]byte{255}, id.iaid[:]...), id.duid...) // RFC 4361, section 6.1
}

// hostname is the name that the client sends, "" for none.
func (o *dhcpWish) name(own string) string {
	switch {
	case !o.sendHostname:
		return ""
	case o.hostname != "":
		return o.hostname
	}
	return own
}

// clientV4 is a protocol.
type clientV4 struct {
	*dhcp4.Client
	listen func(index int, name string) (dhcp4.Link, error)
}

func (k *keeper) startV4(c *leaseClient, l *link, id identity) {
	cfg := dhcp4.Config{MAC: id.mac, ClientID: id.clientID(l.dhcpID), Hostname: l.dhcp4.name(k.env.hostname()), Ours: k.ours}
	c.id = cfg.ClientID
	var lease *dhcp4.Lease
	if saved := new(dhcp4.Lease); k.store.load(c.file, c.id, saved) {
		lease = saved
		c.kept = saved
	}
	c.protocol = clientV4{dhcp4.NewClient(cfg, lease, k.env.now, k.changed), k.env.listen4}
}

func (c clientV4) up(d *LinkState, resumed bool) error {
	link, err := c.listen(d.Index, d.Name)
	if err != nil {
		return err
	}
	c.Up(link, resumed)
	return nil
}

func (c clientV4) down()  { c.Down() }
func (c clientV4) close() { c.Close() }

func (c clientV4) status(now time.Duration) clientStatus {
	s := c.Status()
	return statusOfClient(s, leaseOfV4(s.Lease), now)
}
