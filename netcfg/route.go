package netcfg

// routeWords is netplan's words at the kernel's numbers (RTN_*, include/uapi/
// linux/rtnetlink.h). "" is unicast.
var routeWords = []string{"unspecified", "", "local", "broadcast", "anycast", "multicast",
	"blackhole", "unreachable", "prohibit", "throw"}

// refuses reports whether the route only says no. It then belongs to no link:
// IPv4 refuses one that names a link, IPv6 puts it on lo.
func (r Route) refuses() bool {
	switch r.Type {
	case "blackhole", "unreachable", "prohibit", "throw":
		return true
	}
	return false
}

// routeMetric is an attribute inside RTA_METRICS (RTAX_*).
type routeMetric struct {
	name  string // as `ip route` writes it
	attr  uint16
	value int
}

func (r Route) metrics() []routeMetric {
	return []routeMetric{
		{"mtu", 2, r.MTU},
		{"advmss", 8, r.AdvertisedMSS},
		{"initcwnd", 11, r.CongestionWindow},
		{"initrwnd", 14, r.AdvertisedReceive},
	}
}
