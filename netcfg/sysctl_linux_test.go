package netcfg

import (
	"bytes"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
)

// On a real kernel: global settings, those of a dotted vlan and of a port,
// numbers that the kernel writes with tabs, one that it clamps, one that it
// refuses and one that it does not have; none holds up the rest, the next pass
// writes nothing, and drift is repaired.
func TestKernelSettings(t *testing.T) {
	l := newKernelLab(t).(kernelLab)
	if err := l.AddNIC("eth0", "02:00:00:00:00:00"); err != nil {
		t.Fatal(err)
	}
	var log bytes.Buffer
	r := New(compileWish(t, `ethernets: {eth0: {mtu: 1400, accept-ra: true, addresses: [10.9.0.1/24]}}`), slog.New(slog.NewTextHandler(&log, nil)), Options{
		LoadModule: func(name string) error { return nil },
		Sysctls: []Sysctl{
			{"net.ipv4.conf.eth0.arp_announce", "2"},
			{"net.ipv4.tcp_rmem", "4096 131072 6291456"},
			{"net.ipv4.ip_forward", "1"},
			{"net/ipv6/conf/eth0/dad_transmits", "2"},
			{"net.ipv4.tcp_congestion_control", "reno"},
			{"net.ipv6.conf.eth0.accept_ra", "1"},
			{"net.ipv6.conf.eth9.accept_ra", "1"},
			{"net.ipv4.tcp_no_such", "1"},
			{"net.ipv4.conf.eth0.rp_filter", "many"},
		},
	})
	report, err := r.Converge(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var ops []string
	for _, op := range report.Ops {
		if op.Verb == OpSysctl {
			ops = append(ops, op.String())
		}
	}
	if len(ops) < 4 || ops[0] != "set kernel setting net.ipv4.ip_forward = 1" {
		t.Errorf("ip_forward resets the others and is not first: %q", ops)
	}
	for path, want := range map[string]string{
		"net/ipv4/conf/eth0/arp_announce":  "2",
		"net/ipv4/tcp_rmem":                "4096\t131072\t6291456",
		"net/ipv4/ip_forward":              "1",
		"net/ipv6/conf/eth0/dad_transmits": "2",
		"net/ipv4/tcp_congestion_control":  "reno",
		"net/ipv6/conf/eth0/accept_ra":     "2",
	} {
		if got := readSetting(t, path); got != want {
			t.Errorf("%s is %q, want %q", path, got, want)
		}
	}
	var waits []string
	for _, w := range report.Waits {
		waits = append(waits, w.Reason)
	}
	slices.Sort(waits)
	want := []string{
		"net.ipv4.conf.eth0.rp_filter: set many: invalid argument",
		"net.ipv4.tcp_no_such: the kernel has no such setting that can be read",
		"net.ipv6.conf.eth0.accept_ra: the network document sets it: eth0, accept-ra",
		"net.ipv6.conf.eth9.accept_ra: no interface named eth9",
	}
	if !slices.Equal(waits, want) {
		t.Errorf("waits\n%q, want\n%q", waits, want)
	}
	again, err := r.Converge(t.Context())
	if err != nil || again.Writes != 0 {
		t.Errorf("second time: %v, %v", again.Ops, err)
	}
	if n := strings.Count(log.String(), "(and 3 more)"); n != 1 {
		t.Errorf("said %d times:\n%s", n, log.String())
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/conf/eth0/arp_announce", []byte("0"), 0); err != nil {
		t.Fatal(err)
	}
	repaired, err := r.Converge(t.Context())
	if err != nil || len(repaired.Ops) != 1 || readSetting(t, "net/ipv4/conf/eth0/arp_announce") != "2" {
		t.Errorf("drift: %v, %v", repaired.Ops, err)
	}
}

func readSetting(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile("/proc/sys/" + path)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(text))
}

// A setting of which the kernel makes something else is refused, not written
// for ever; a module is asked for once.
func TestSettingsThatDoNotStick(t *testing.T) {
	newKernelLab(t)
	asked := 0
	f := sysctlFiles{tried: map[string]bool{}, load: func(name string) error {
		asked++
		if name != "tcp_nosuch" {
			t.Errorf("asked for module %s", name)
		}
		return nil
	}}
	for range 2 {
		if err := f.write(Sysctl{"net.ipv4.tcp_congestion_control", "nosuch"}); err == nil {
			t.Error("the kernel has a congestion control that nobody wrote")
		}
	}
	if asked != 1 {
		t.Errorf("asked %d times", asked)
	}
	for _, s := range []Sysctl{{"net.ipv4.tcp_congestion_control", "reno"}, {"net/ipv4/ip_forward", "1"}} {
		if err := f.write(s); err != nil {
			t.Errorf("%+v: %v", s, err)
		}
	}
}
