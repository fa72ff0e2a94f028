package netcfg

import (
	"fmt"
	"strings"
	"testing"
)

// The size at which the planner is measured, here and beside others in a guest
// (peers_bench_test.go).
const (
	benchVLANs  = 1000
	benchRoutes = 5 // of each vlan, which also has an IPv4 and an IPv6 address
)

func benchAddress4(vlan int) string { return fmt.Sprintf("10.%d.%d.1", vlan/250, vlan%250) }
func benchAddress6(vlan int) string { return fmt.Sprintf("fd00:%x::1", vlan+1) }

func benchRoute(vlan, i int) (to, via string) {
	return fmt.Sprintf("172.%d.%d.0/24", 16+benchRoutes*(vlan/250)+i, vlan%250), fmt.Sprintf("10.%d.%d.%d", vlan/250, vlan%250, i+2)
}

func benchWish(vlans int) string {
	var doc strings.Builder
	doc.WriteString("ethernets: {eth0: {}}\nvlans:\n")
	for v := range vlans {
		var routes []string
		for i := range benchRoutes {
			to, via := benchRoute(v, i)
			routes = append(routes, fmt.Sprintf("{to: %s, via: %s}", to, via))
		}
		fmt.Fprintf(&doc, "  v%d: {id: %d, link: eth0, addresses: [%s/24, '%s/64'], routes: [%s]}\n",
			v, v+1, benchAddress4(v), benchAddress6(v), strings.Join(routes, ", "))
	}
	return doc.String()
}

// BenchmarkPlanConverged is the plan that finds nothing to do, on 1,000 vlans
// with 2,000 addresses and 5,000 routes.
func BenchmarkPlanConverged(b *testing.B) {
	cfg := compileWish(b, benchWish(benchVLANs))
	f := newFake(b).(*fake)
	if err := f.AddNIC("eth0", "02:00:00:00:00:00"); err != nil {
		b.Fatal(err)
	}
	if _, err := New(cfg, quiet(), Options{}).passes(bg, f, &Report{}); err != nil {
		b.Fatal(err)
	}
	have, _ := f.Observe(bg)
	for b.Loop() {
		ops, waits := plan(cfg, have)
		if len(ops) > 0 {
			b.Fatal(ops[0])
		}
		statusOf(cfg, have, waits)
	}
}
