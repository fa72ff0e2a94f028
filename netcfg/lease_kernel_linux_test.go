package netcfg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// dhcpLab is eth0 of this machine and another machine at its far end.
type dhcpLab struct {
	kernelLab
	other *namespace
}

func newDHCPLab(t *testing.T, addresses ...string) dhcpLab {
	t.Helper()
	l := dhcpLab{newKernelLab(t).(kernelLab), newNamespace(t)}
	if err := l.AddNIC("eth0", "02:00:00:00:00:01"); err != nil {
		t.Fatal(err)
	}
	l.other.noDAD(t)
	l.move(t, "eth0", l.other)
	for _, a := range addresses {
		l.other.do(t, addr("peer-eth0", a))
	}
	return l
}

// noDAD lets servers use the other machine's addresses at once.
func (n *namespace) noDAD(t *testing.T) {
	t.Helper()
	failed := make(chan error)
	n.run <- func() { failed <- os.WriteFile("/proc/sys/net/ipv6/conf/default/accept_dad", []byte("0\n"), 0) }
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}

// serve runs a program on the other machine until the test ends, or stop is
// called.
func (n *namespace) serve(t *testing.T, name string, args ...string) (stop func()) {
	t.Helper()
	var out bytes.Buffer
	cmd := exec.Command(name, args...)
	cmd.Stdout, cmd.Stderr = &out, &out
	started := make(chan error)
	n.run <- func() { started <- cmd.Start() } // a child is where its parent's thread is
	if err := <-started; err != nil {
		t.Fatalf("start %s: %v", name, err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	t.Cleanup(func() {
		stop()
		if t.Failed() {
			t.Logf("%s said:\n%s", name, out.String())
		}
	})
	return stop
}

func (l dhcpLab) dnsmasq(t *testing.T, args ...string) {
	l.other.serve(t, "dnsmasq", append([]string{
		"--keep-in-foreground", "--conf-file=/dev/null", "--no-resolv", "--no-hosts", "--port=0", "--no-ping",
		"--log-dhcp", "--log-facility=-", "--interface=peer-eth0", "--bind-interfaces", "--user=root", "--pid-file=",
		"--dhcp-leasefile=" + filepath.Join(t.TempDir(), "leases"), "--dhcp-authoritative",
	}, args...)...)
}

// TestKernelDnsmasq: from nothing to a lease with all that a server can give,
// and the same address for the same node from an empty disk.
func TestKernelDnsmasq(t *testing.T) {
	l := newDHCPLab(t, "10.9.0.1/24")
	l.dnsmasq(t, "--dhcp-range=10.9.0.100,10.9.0.200,1h", "--dhcp-option=option:dns-server,10.9.0.3", "--dhcp-option=option:domain-search,a.example,b.example",
		"--dhcp-option=option:router,10.9.0.254", "--dhcp-option=option:classless-static-route,0.0.0.0/0,10.9.0.1,192.0.2.0/24,0.0.0.0",
		"--dhcp-option=option:mtu,1400", "--dhcp-option=option:ntp-server,10.9.0.4", "--domain=lan")
	const wish = `ethernets: {eth0: {dhcp4: true, dhcp4-overrides: {use-domains: true}}}`
	var first netip.Prefix
	for range 2 {
		resolv := filepath.Join(t.TempDir(), "resolv.conf")
		r := New(compileWish(t, wish), quiet(), Options{ResolvConf: resolv})
		began := time.Now()
		report, err := r.Converge(t.Context())
		if err != nil || len(report.Waits) != 0 {
			t.Fatalf("%v, waits %v", err, report.Waits)
		}
		t.Logf("converged in %s, %d passes", time.Since(began).Round(time.Millisecond), report.Passes)
		s := r.Status().Leases[0]
		if s.Server != "10.9.0.1" || len(s.Addresses) != 1 || !s.Addresses[0].Contains(netip.MustParseAddr("10.9.0.150")) || fmt.Sprint(s.NTP) != "[10.9.0.4]" {
			t.Errorf("status %+v", s)
		}
		if first.IsValid() && first != s.Addresses[0] {
			t.Errorf("first %s, then %s", first, s.Addresses[0])
		}
		first = s.Addresses[0]
		have, err := Observe(bg, resolv)
		if err != nil {
			t.Fatal(err)
		}
		var routes []string
		for _, route := range have.Routes {
			if route.Proto == ownProto {
				routes = append(routes, route.where()+route.how())
			}
		}
		if got := strings.Join(routes, ", "); got != fmt.Sprintf("default via 10.9.0.1 src %s metric 100, 192.0.2.0/24 metric 100", first.Addr()) {
			t.Errorf("routes %s", got)
		}
		if d := have.named("eth0"); d.MTU != 1400 || !strings.Contains(*have.ResolvConf, "search lan a.example b.example\nnameserver 10.9.0.3\n") {
			t.Errorf("mtu %d, %s", d.MTU, *have.ResolvConf)
		}
		for _, a := range have.Addresses {
			if a.Prefix == first && (a.Valid < 3590 || a.Valid > 3600) {
				t.Errorf("valid for %d s", a.Valid)
			}
			if a.Prefix == first {
				if err := l.remove(a); err != nil {
					t.Error(err)
				}
			}
		}
	}
}

// remove takes an address away as a reboot does.
func (l dhcpLab) remove(a AddressState) error {
	if _, err := l.Observe(bg); err != nil {
		return err
	}
	return l.Apply(bg, Op{Verb: OpDeleteAddress, Link: "eth0", Address: a.Prefix})
}

// TestKernelDnsmasqV6: an address by DHCPv6, usable at once, beside what the
// router says.
func TestKernelDnsmasqV6(t *testing.T) {
	l := newDHCPLab(t, "fd00:9::1/64")
	l.dnsmasq(t, "--enable-ra", "--dhcp-range=fd00:9::100,fd00:9::1ff,64,1h", "--dhcp-option=option6:dns-server,[fd00:9::3]", "--dhcp-option=option6:domain-search,a.example")
	resolv := filepath.Join(t.TempDir(), "resolv.conf")
	r := New(compileWish(t, `ethernets: {eth0: {dhcp6: true, dhcp6-overrides: {use-domains: true}}}`), quiet(), Options{ResolvConf: resolv})
	began := time.Now()
	report, err := r.Converge(t.Context())
	if err != nil || len(report.Waits) != 0 {
		t.Fatalf("%v, waits %v", err, report.Waits)
	}
	t.Logf("converged in %s, %d passes", time.Since(began).Round(time.Millisecond), report.Passes)
	s := r.Status().Leases[0]
	if s.Version != 6 || len(s.Addresses) != 1 || !prefixOf(t, "fd00:9::/64").Contains(s.Addresses[0].Addr()) || s.Addresses[0].Bits() != 128 {
		t.Fatalf("status %+v", s)
	}
	ln, err := net.Listen("tcp", net.JoinHostPort(s.Addresses[0].Addr().String(), "0"))
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	have, err := Observe(bg, resolv)
	if err != nil || !strings.Contains(*have.ResolvConf, "search a.example\nnameserver fd00:9::3\n") {
		t.Errorf("%v, %s", err, *have.ResolvConf)
	}
}

// TestKernelStatelessV6: the router gives the address, DHCPv6 only name servers.
func TestKernelStatelessV6(t *testing.T) {
	l := newDHCPLab(t, "fd00:9::1/64")
	l.dnsmasq(t, "--enable-ra", "--dhcp-range=fd00:9::,ra-stateless", "--dhcp-option=option6:ntp-server,[fd00:9::4]", "--dhcp-option=option6:dns-server,[fd00:9::3]")
	r := New(compileWish(t, `ethernets: {eth0: {dhcp6: true, accept-ra: true}}`), quiet(), Options{})
	ctx, stop := context.WithTimeout(t.Context(), 30*time.Second)
	defer stop()
	met := make(chan error, 1)
	go func() {
		defer stop()
		met <- r.WaitFor(ctx, func(s Status) bool {
			return s.Ready() && len(s.Leases) == 1 && fmt.Sprint(s.Leases[0].NTP, s.Leases[0].Addresses) == "[fd00:9::4] []"
		})
	}()
	if err := errors.Join(r.Run(ctx), <-met); err != nil {
		t.Errorf("%v: %+v", err, r.Status())
	}
}

func prefixOf(t *testing.T, s string) netip.Prefix {
	t.Helper()
	p, err := netip.ParsePrefix(s)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// kea runs a server of ISC's with a configuration of its own.
func (l dhcpLab) kea(t *testing.T, version int, config string) (stop func()) {
	dir := t.TempDir()
	file := filepath.Join(dir, "kea.conf")
	text := fmt.Sprintf(`{"Dhcp%d": {"interfaces-config": {"interfaces": ["peer-eth0"]}, "lease-database": {"type": "memfile", "persist": false}, %s}}`, version, config)
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	t.Setenv("KEA_PIDFILE_DIR", dir)
	t.Setenv("KEA_LOCKFILE_DIR", dir)
	return l.other.serve(t, fmt.Sprintf("kea-dhcp%d", version), "-c", file)
}

// TestKernelKea: a second server's word for it, of both versions on one link.
func TestKernelKea(t *testing.T) {
	l := newDHCPLab(t, "10.9.0.1/24", "fd00:9::1/64")
	l.kea(t, 4, `"valid-lifetime": 3600, "subnet4": [{"id": 1, "subnet": "10.9.0.0/24", "pools": [{"pool": "10.9.0.100-10.9.0.200"}],
		"option-data": [{"name": "routers", "data": "10.9.0.1"}, {"name": "domain-name-servers", "data": "10.9.0.3"}, {"name": "domain-search", "data": "a.example, b.example"}]}]`)
	l.kea(t, 6, `"server-id": {"type": "LL", "htype": 1, "identifier": "020000000011", "persist": false}, "preferred-lifetime": 1800, "valid-lifetime": 3600, "subnet6": [{"id": 1, "subnet": "fd00:9::/64", "interface": "peer-eth0", "rapid-commit": true,
		"pools": [{"pool": "fd00:9::100-fd00:9::1ff"}], "option-data": [{"name": "dns-servers", "data": "fd00:9::3"}]}]`)
	r := New(compileWish(t, `ethernets: {eth0: {dhcp4: true, dhcp6: true}}`), quiet(), Options{})
	report, err := r.Converge(t.Context())
	if err != nil || len(report.Waits) != 0 {
		t.Fatalf("%v, waits %v", err, report.Waits)
	}
	st := r.Status()
	if len(st.Leases) != 2 || st.Leases[0].Server != "10.9.0.1" || len(st.Leases[1].Addresses) != 1 || fmt.Sprint(st.Leases[1].DNS) != "[fd00:9::3]" {
		t.Errorf("leases %+v", st.Leases)
	}
	if len(st.Addresses) != 2 {
		t.Errorf("addresses %v", st.Addresses)
	}
	if again, err := r.Converge(t.Context()); err != nil || len(again.Waits) != 0 {
		t.Errorf("%v, waits %v", err, again.Waits)
	}
}
