package netcfg

import (
	"fmt"
	"strings"
	"testing"
)

// BenchmarkPlanConverged is the pass that finds nothing to do, on 1,000 vlans
// with 2,000 addresses and 5,000 routes.
func BenchmarkPlanConverged(b *testing.B) {
	var doc strings.Builder
	doc.WriteString("ethernets: {eth0: {}}\nvlans:\n")
	for i := range 1000 {
		fmt.Fprintf(&doc, "  v%d: {id: %d, link: eth0, addresses: [10.%d.%d.1/24, 'fd00:%x::1/64'], routes: [", i, i+1, i/250, i%250, i+1)
		for r := range 5 {
			fmt.Fprintf(&doc, "{to: 172.%d.%d.0/24, via: 10.%d.%d.%d}, ", 16+5*(i/250)+r, i%250, i/250, i%250, r+2)
		}
		fmt.Fprintf(&doc, "]}\n")
	}
	cfg := compileWish(b, strings.ReplaceAll(doc.String(), "}, ]", "}]"))
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
