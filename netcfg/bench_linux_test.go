package netcfg

import (
	"strings"
	"testing"
)

// kernelWish is benchWish with bridges in place of vlans, which a kernel has
// that has no vlans.
func kernelWish() string {
	var doc strings.Builder
	for line := range strings.Lines(benchWish(benchVLANs)) {
		if _, wish, ok := strings.Cut(line, "link: eth0, "); ok {
			name, _, _ := strings.Cut(line, ":")
			line = name + ": {" + wish
		}
		line = strings.Replace(line, "ethernets: {eth0: {}}", "", 1)
		doc.WriteString(strings.Replace(line, "vlans:", "bridges:", 1))
	}
	return doc.String()
}

// BenchmarkKernelMake makes the network of BenchmarkPlanConverged, with
// bridges, in a namespace of this machine's kernel.
func BenchmarkKernelMake(b *testing.B) {
	cfg := compileWish(b, kernelWish())
	for b.Loop() {
		b.StopTimer()
		l := newKernelLab(b)
		b.StartTimer()
		if _, err := New(cfg, quiet(), Options{}).passes(bg, l, &Report{}); err != nil {
			b.Fatal(err)
		}
		b.StopTimer()
		l.Close()
		b.StartTimer()
	}
}

// BenchmarkKernelConverged finds that nothing is to be done there.
func BenchmarkKernelConverged(b *testing.B) {
	l := newKernelLab(b)
	r := New(compileWish(b, kernelWish()), quiet(), Options{})
	if _, err := r.passes(bg, l, &Report{}); err != nil {
		b.Fatal(err)
	}
	for b.Loop() {
		var report Report
		if _, err := r.passes(bg, l, &report); err != nil || report.Writes != 0 {
			b.Fatalf("%d writes, %v", report.Writes, err)
		}
	}
}
