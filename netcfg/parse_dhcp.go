package netcfg

import "strings"

// defaultDHCP is what a lease is used for without overrides, as netplan has it.
var defaultDHCP = dhcpWish{
	useDNS: true, useNTP: true, useMTU: true, useRoutes: true,
	sendHostname: true, metric: -1,
}

// readDHCP reads dhcp4 or dhcp6 and its overrides, which are checked also when
// there is no DHCP.
func readDHCP(m Mapping, key string) *dhcpWish {
	d := readOverrides(m.Get(key + "-overrides"))
	if !m.Get(key).Bool() {
		return nil
	}
	return &d
}

func readOverrides(v Value) dhcpWish {
	m := v.Mapping(dhcpKeys)
	d := defaultDHCP
	for key, use := range map[string]*bool{
		"use-dns": &d.useDNS, "use-ntp": &d.useNTP, "use-mtu": &d.useMTU,
		"use-routes": &d.useRoutes, "send-hostname": &d.sendHostname,
	} {
		*use = boolOr(m.Get(key), *use)
	}
	// A lease's time servers and host name are told in the status and used for
	// nothing: the node has its name and clock from elsewhere.
	for _, key := range []string{"use-ntp", "use-hostname"} {
		if v := m.Get(key); v.Bool() {
			v.Unsupported("true %s", unsupported)
		}
	}
	d.useDomains = useDomains(m.Get("use-domains"))
	if n := m.Get("route-metric"); n.Set() {
		d.metric = n.Int(0, maxUint32)
	}
	if h := m.Get("hostname"); h.Set() {
		d.hostname = h.Scalar()
		// One byte of length in the option, and a name of the DNS (RFC 2132, section 3.14).
		if !validDomain(d.hostname) || strings.HasPrefix(d.hostname, ".") {
			h.Invalid("is no host name")
		}
	}
	return d
}

// readIdentifier is what a DHCPv4 client calls itself; netplan's `duid` is the default.
func readIdentifier(v Value) dhcpID {
	if v.Enum("mac", "duid") == "mac" {
		return dhcpByMAC
	}
	return dhcpByDUID
}
