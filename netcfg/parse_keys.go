package netcfg

import "slices"

// Netplan's keys, section by section. Known keys are read; NotYet keys are
// those whose values we do not even look at. docs/netplan.md says what each
// does here, and TestKeysAreDocumented holds it to these lists.
var (
	topKeys = Keys{
		Known: []string{"version", "renderer", "ethernets", "bonds", "bridges", "vlans", "dummy-devices"},
		NotYet: []string{"wifis", "modems", "tunnels", "vrfs", "nm-devices",
			"virtual-ethernets", "openvswitch"},
	}
	commonKeys = Keys{
		Known: []string{"addresses", "routes", "routing-policy", "gateway4", "gateway6", "nameservers",
			"mtu", "macaddress", "optional", "optional-addresses", "critical", "ignore-carrier",
			"activation-mode", "renderer", "link-local", "accept-ra", "ra-overrides",
			"ipv6-address-generation", "ipv6-address-token", "ipv6-mtu", "ipv6-privacy",
			"dhcp4", "dhcp6", "dhcp4-overrides", "dhcp6-overrides", "dhcp-identifier",
			"hairpin", "port-mac-learning", "neigh-suppress"},
		NotYet: []string{"openvswitch", "networkmanager"},
	}
	ethernetKeys = commonKeys.and(Keys{
		Known: []string{"match", "set-name", "wakeonlan"},
		NotYet: []string{"wakeonwlan", "emit-lldp", "receive-checksum-offload", "transmit-checksum-offload",
			"tcp-segmentation-offload", "tcp6-segmentation-offload", "generic-segmentation-offload",
			"generic-receive-offload", "large-receive-offload", "infiniband-mode", "link", "auth",
			"virtual-function-count", "embedded-switch-mode", "delay-virtual-functions-rebind"},
	})
	bondKeys   = commonKeys.and(Keys{Known: []string{"interfaces", "parameters"}})
	bridgeKeys = commonKeys.and(Keys{Known: []string{"interfaces", "parameters"}})
	vlanKeys   = commonKeys.and(Keys{Known: []string{"id", "link"}})

	matchKeys      = Keys{Known: []string{"macaddress", "driver", "name"}}
	nameserverKeys = Keys{Known: []string{"addresses", "search"}}
	addressKeys    = Keys{Known: []string{"label", "lifetime"}}
	routeKeys      = Keys{Known: []string{"to", "via", "from", "metric", "table", "scope", "on-link", "type",
		"mtu", "advertised-mss", "congestion-window", "advertised-receive-window"}}
	ruleKeys = Keys{Known: []string{"from", "to", "table", "priority", "mark", "type-of-service"}}
	dhcpKeys = Keys{Known: []string{"use-dns", "use-domains", "use-ntp", "use-mtu", "use-routes",
		"use-hostname", "send-hostname", "hostname", "route-metric"}}
	raKeys = Keys{Known: []string{"use-dns", "use-domains"}, NotYet: []string{"table"}}
)

// unsupported ends the refusal of a value that netplan takes.
const unsupported = "is valid netplan that we do not support yet"

// byAnyName is Get for a key that has other spellings.
func (m Mapping) byAnyName(key string, spellings map[string]string) Value {
	found := m.Get(key)
	for _, e := range m.Entries() {
		switch {
		case e.Key == key || spellings[e.Key] != key || key == "":
		case found.Set():
			e.Value.Invalid("is %s, which is given in line %d", key, found.Line())
		default:
			found = e.Value
		}
	}
	return found
}

func (k Keys) and(more Keys) Keys {
	return Keys{
		Known:  slices.Concat(k.Known, more.Known),
		NotYet: slices.Concat(k.NotYet, more.NotYet),
	}
}
