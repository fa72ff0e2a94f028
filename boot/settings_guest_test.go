//go:build guest

package boot

import (
	"io"
	"log/slog"
	"os"
	"strings"
	"testing"

	"reveille/boot/modules"
	"reveille/netcfg"
)

// A setting whose value is a kernel module's, or that only a module has, loads
// that from the image: the kernel would ask modprobe, which no node has.
func TestSettingsLoadModules(t *testing.T) {
	log := slog.New(slog.NewTextHandler(io.Discard, nil))
	loader, err := modules.Open("/", log)
	if err != nil {
		t.Fatal(err)
	}
	cfg, err := netcfg.Parse("node.yaml", []byte("version: 2\nethernets: {}\n"))
	if err != nil {
		t.Fatal(err)
	}
	wanted := []netcfg.Sysctl{
		{Key: "net.ipv4.tcp_congestion_control", Value: "bbr"},
		{Key: "net.core.default_qdisc", Value: "fq"},
		{Key: "net.bridge.bridge-nf-call-iptables", Value: "0"},
	}
	r := netcfg.New(cfg, log, netcfg.Options{Sysctls: wanted, LoadModule: loader.Load})
	report, err := r.Converge(t.Context())
	if err != nil || len(report.Waits) > 0 {
		t.Fatalf("%v, waits %v", err, report.Waits)
	}
	for _, s := range wanted {
		text, err := os.ReadFile("/proc/sys/" + strings.ReplaceAll(s.Key, ".", "/"))
		if got := strings.TrimSpace(string(text)); err != nil || got != s.Value {
			t.Errorf("%s is %q (%v), want %s", s.Key, got, err, s.Value)
		}
	}
	if report, err = r.Converge(t.Context()); err != nil || report.Writes != 0 {
		t.Errorf("second time %d writes, %v", report.Writes, err)
	}
}
