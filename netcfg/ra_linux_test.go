package netcfg

import (
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
)

const radvdConf = `interface peer-eth0 {
	AdvSendAdvert on;
	MinRtrAdvInterval 600;
	MaxRtrAdvInterval 1800;
	AdvDefaultLifetime 9000;
	prefix fd00:9::/64 { };
	RDNSS fd00:9::53 { AdvRDNSSLifetime 9000; };
	DNSSL example.org { AdvDNSSLLifetime 9000; };
};
`

// router is radvd on the other machine. It is started and ended by hand.
type router struct {
	t   *testing.T
	n   *namespace
	dir string
	cmd *exec.Cmd
}

func (r *router) start() error {
	conf := filepath.Join(r.dir, "radvd.conf")
	if err := os.WriteFile(conf, []byte(radvdConf), 0o644); err != nil {
		return err
	}
	r.cmd = exec.Command("radvd", "-n", "-C", conf, "-m", "stderr", "-p", filepath.Join(r.dir, "pid"))
	r.cmd.Stderr = r.t.Output()
	failed := make(chan error)
	r.n.run <- func() { // a child is in the namespace of the thread that starts it
		err := os.WriteFile("/proc/sys/net/ipv6/conf/all/forwarding", []byte("1"), 0)
		if err == nil {
			err = r.cmd.Start()
		}
		failed <- err
	}
	return <-failed
}

// stop lets radvd say goodbye: a last advertisement with lifetimes of 0.
func (r *router) stop() error {
	if r.cmd == nil || r.cmd.ProcessState != nil {
		return nil
	}
	if err := r.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	_ = r.cmd.Wait() // its status says nothing
	return nil
}

// A real router that comes late and rarely speaks: its prefix makes an address,
// its route and name server are used beside the document's, also while we
// forward; a new agent asks for them at once; they go when it says goodbye.
func TestKernelRouterAdvertisements(t *testing.T) {
	if _, err := exec.LookPath("radvd"); err != nil {
		t.Fatal(err)
	}
	other := newNamespace(t)
	r := &router{t: t, n: other, dir: t.TempDir()}
	t.Cleanup(func() {
		if err := r.stop(); err != nil {
			t.Error(err)
		}
	})
	resolv := filepath.Join(r.dir, "resolv.conf")
	wish := `ethernets: {eth0: {accept-ra: true, addresses: ["fd00:9::1/64"], nameservers: {addresses: [10.0.0.53]}, ra-overrides: {use-domains: true}}}`
	options := Options{ResolvConf: resolv, Sysctls: []Sysctl{{"net.ipv6.conf.all.forwarding", "1"}}}

	const document = "nameserver 10.0.0.53"
	both := []string{"search example.org", document, "nameserver fd00:9::53"}
	advertised := func(s Status) bool {
		return slices.ContainsFunc(s.Links[0].Addresses, func(a AddressStatus) bool {
			return !a.Wanted && a.State == "ok" && netip.MustParsePrefix("fd00:9::/64").Contains(a.Prefix.Addr())
		})
	}
	watchWith(t, wish, options, func(w *watched) error {
		return first(
			func() error { return w.lab.AddNIC("eth0", "02:00:00:00:00:00") },
			func() error { return w.resolves(resolv, document) },
			func() error { w.lab.move(t, "eth0", other); return nil },
			func() error { return w.until(1, "bring eth0 up") },
			r.start,
			func() error {
				return w.WaitFor(w.ctx, func(s Status) bool { return len(s.Addresses) == 2 && advertised(s) })
			},
			func() error { return w.resolves(resolv, both...) },
			func() error { return w.routed("eth0", true) },
			func() error { return w.restart(wish, options) },
			func() error { return w.resolves(resolv, both...) },
			r.stop,
			func() error { return w.resolves(resolv, document) },
			func() error { return w.routed("eth0", false) },
		)
	})
}
