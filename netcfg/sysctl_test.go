package netcfg

import "testing"

func TestSysctlKeys(t *testing.T) {
	for _, c := range []struct{ key, path, link string }{
		{"net.ipv4.ip_forward", "net/ipv4/ip_forward", ""},
		{"net/ipv4/ip_forward", "net/ipv4/ip_forward", ""},
		{"/net/ipv4/ip_forward", "net/ipv4/ip_forward", ""},
		{"net.ipv6.conf.all.forwarding", "net/ipv6/conf/all/forwarding", ""},
		{"net.ipv4.conf.default.rp_filter", "net/ipv4/conf/default/rp_filter", ""},
		{"net.ipv4.conf.eth0.rp_filter", "net/ipv4/conf/eth0/rp_filter", "eth0"},
		{"net.ipv4.conf.bond0.100.rp_filter", "net/ipv4/conf/bond0.100/rp_filter", "bond0.100"},
		{"net/ipv4/conf/bond0.100/rp_filter", "net/ipv4/conf/bond0.100/rp_filter", "bond0.100"},
		{"net.ipv6.neigh.bond0.100.gc_stale_time", "net/ipv6/neigh/bond0.100/gc_stale_time", "bond0.100"},
		{"vm.swappiness", "vm/swappiness", ""},
	} {
		s := Sysctl{c.key, "1"}
		if err := s.Check(); err != nil || s.path() != c.path || s.link() != c.link {
			t.Errorf("%s: %v, path %q, link %q", c.key, err, s.path(), s.link())
		}
	}
}

func TestSysctlRefusals(t *testing.T) {
	for _, s := range []Sysctl{
		{"", "1"}, {"net", "1"}, {"net..ip_forward", "1"}, {"net/ipv4/../../x", "1"}, {"net.ipv4.x y", "1"},
		{"net.ipv4.ip_forward", ""}, {"net.ipv4.ip_forward", "1\n2"},
	} {
		if s.Check() == nil {
			t.Errorf("%+v is taken", s)
		}
	}
}
