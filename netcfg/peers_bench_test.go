//go:build bench

package netcfg

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// peers is a tree with iproute2's ip and systemd-networkd, in the guest that
// `make bench` boots.
const peers = "/peers"

// TestPeers measures what `ip -batch`, systemd-networkd and this package take
// for the same network in the same guest: to make it, and to find it made.
func TestPeers(t *testing.T) {
	for _, vlans := range []int{benchVLANs / 10, benchVLANs} {
		t.Run(fmt.Sprintf("%d vlans, %d addresses, %d routes", vlans, 2*vlans, benchRoutes*vlans), func(t *testing.T) {
			// Whatever else the machine does makes a run longer and none shorter,
			// so of several in turn the best ones are compared.
			best, bestIP := time.Hour, time.Hour
			for range benchRounds {
				t.Run("reveille", func(in *testing.T) { best = min(best, timeReveille(in, t, vlans)) })
				t.Run("ip", func(in *testing.T) { bestIP = min(bestIP, timeIP(in, t, vlans)) })
			}
			t.Logf("made in %.2f s, by ip in %.2f s: %.2f of its time", best.Seconds(), bestIP.Seconds(), best.Seconds()/bestIP.Seconds())
			t.Run("networkd", func(in *testing.T) { timeNetworkd(in, t, vlans) })
		})
	}
}

const benchRounds = 3

// benchLab is a network namespace with one NIC that has carrier when it is up.
// It lasts as long as whole: the kernel holds everybody up while it takes a
// thousand devices down.
func benchLab(t, whole *testing.T) kernelLab {
	l := newKernelLab(t).(kernelLab)
	ns, err := os.Open("/proc/thread-self/ns/net")
	if err != nil {
		t.Fatal(err)
	}
	whole.Cleanup(func() { ns.Close() })
	if err := l.AddNIC("eth0", "02:00:00:00:00:00"); err != nil {
		t.Fatal(err)
	}
	return l
}

func timeReveille(t, whole *testing.T, vlans int) time.Duration {
	l := benchLab(t, whole)
	r := New(compileWish(t, benchWish(vlans)), quiet(), Options{})
	var made Report
	start := time.Now()
	if _, err := r.passes(bg, l, &made); err != nil {
		t.Fatal(err)
	}
	took := time.Since(start)
	t.Logf("make: %.2f s, %d operations", took.Seconds(), made.Writes)
	for range 3 { // the first is still with the kernel's own work of before
		var report Report
		start := time.Now()
		have, err := l.Observe(bg)
		if err != nil {
			t.Fatal(err)
		}
		seen := time.Since(start)
		start = time.Now()
		if _, err := r.passes(bg, l, &report); err != nil || report.Writes != 0 {
			t.Fatalf("%d writes, %v", report.Writes, err)
		}
		t.Logf("find made: %d ms, no writes (to observe %d links, %d addresses, %d routes: %d ms)", time.Since(start).Milliseconds(),
			len(have.Links), len(have.Addresses), len(have.Routes), seen.Milliseconds())
	}
	return took
}

func timeIP(t, whole *testing.T, vlans int) time.Duration {
	benchLab(t, whole)
	var add, again strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&add, format+"\n", args...) }
	replace := func(format string, args ...any) {
		line(strings.Replace(format, "VERB", "add", 1), args...)
		fmt.Fprintf(&again, strings.Replace(format, "VERB", "replace", 1)+"\n", args...)
	}
	line("link set eth0 up")
	for v := range vlans {
		line("link add link eth0 name v%d type vlan id %d", v, v+1)
		line("link set v%d up", v)
		replace("address VERB %s/24 dev v%d", benchAddress4(v), v)
		replace("address VERB %s/64 dev v%d", benchAddress6(v), v)
		for i := range benchRoutes {
			to, via := benchRoute(v, i)
			replace("route VERB %s via %s dev v%d", to, via, v)
		}
	}
	took := batch(t, add.String())
	t.Logf("make: %.2f s", took.Seconds())
	t.Logf("make again: %.2f s", batch(t, again.String()).Seconds())
	// To find it made is first of all to read it: ip does that, and compares nothing.
	t.Logf("only list it: %.2f s", batch(t, "link show\naddress show\nroute show table all\nrule show\n").Seconds())
	return took
}

func batch(t *testing.T, text string) time.Duration {
	if err := os.WriteFile(filepath.Join(peers, "batch"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	cmd := inPeers("/bin/ip", "-batch", "/batch")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return time.Since(start)
}

// inPeers is a program of the tree, in the network namespace of this thread.
func inPeers(path string, args ...string) *exec.Cmd {
	cmd := exec.Command(path, args...)
	cmd.Path, cmd.Err, cmd.Dir, cmd.Env = path, nil, "/", []string{"SYSTEMD_LOG_LEVEL=err"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Chroot: peers}
	return cmd
}

func timeNetworkd(t, whole *testing.T, vlans int) {
	benchLab(t, whole)
	networkdFiles(t, vlans)
	for _, what := range []string{"make", "find made"} {
		took, failed := runNetworkd(t, vlans)
		if t.Logf("%s: %.2f s", what, took.Seconds()); failed > 0 {
			t.Logf("%d links were not configured: failed by its own account, or too late", failed)
			return
		}
	}
}

// networkdTree makes the tree one that networkd can run in.
func networkdTree(t *testing.T) {
	for _, m := range []struct {
		kind, target string
		flags        uintptr
	}{
		// A /sys that is read-only tells networkd that there is no udev to wait for.
		{"proc", "proc", 0}, {"sysfs", "sys", unix.MS_RDONLY}, {"tmpfs", "run", 0},
	} {
		target := filepath.Join(peers, m.target)
		if err := unix.Mount(m.kind, target, m.kind, m.flags, ""); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
				t.Error(err)
			}
		})
	}
	for _, d := range []string{"run/systemd/network", "run/systemd/netif/links"} {
		if err := os.MkdirAll(filepath.Join(peers, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	// The user that networkd runs as writes here, with each event: if it cannot,
	// it takes several times as long.
	for _, d := range []string{"run/systemd/netif", "run/systemd/netif/links"} {
		if err := os.Chmod(filepath.Join(peers, d), 0o777); err != nil {
			t.Fatal(err)
		}
	}
}

// networkdFiles writes the wish in networkd's words. Duplicate address
// detection is off: networkd waits for it, and the others do not.
func networkdFiles(t *testing.T, vlans int) {
	networkdTree(t)
	dir := filepath.Join(peers, "run/systemd/network")
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	var nic strings.Builder
	nic.WriteString("[Match]\nName=eth0\n[Network]\nIPv6AcceptRA=no\nLLDP=no\n")
	for v := range vlans {
		fmt.Fprintf(&nic, "VLAN=v%d\n", v)
		write(fmt.Sprintf("v%d.netdev", v), fmt.Sprintf("[NetDev]\nName=v%d\nKind=vlan\n[VLAN]\nId=%d\n", v, v+1))
		var b strings.Builder
		fmt.Fprintf(&b, "[Match]\nName=v%d\n[Network]\nIPv6AcceptRA=no\nLLDP=no\nIPv6DuplicateAddressDetection=0\nAddress=%s/24\nAddress=%s/64\n", v, benchAddress4(v), benchAddress6(v))
		for i := range benchRoutes {
			to, via := benchRoute(v, i)
			fmt.Fprintf(&b, "[Route]\nDestination=%s\nGateway=%s\n", to, via)
		}
		write(fmt.Sprintf("v%d.network", v), b.String())
	}
	write("eth0.network", nic.String())
}

// runNetworkd is how long it takes until every link is configured or has failed
// by its own account, at most six minutes, and how many are not configured.
func runNetworkd(t *testing.T, vlans int) (took time.Duration, failed int) {
	// The user that networkd runs as writes here, with each event: if it cannot,
	// it takes several times as long.
	netif := filepath.Join(peers, "run/systemd/netif")
	links := filepath.Join(netif, "links")
	if err := os.RemoveAll(netif); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{netif, links} {
		if err := errors.Join(os.Mkdir(dir, 0o777), os.Chmod(dir, 0o777)); err != nil {
			t.Fatal(err)
		}
	}
	start := time.Now()
	defer startNetworkd(t)()
	const patience = 6 * time.Minute
	settled, configured, done := 0, 0, map[string]bool{}
poll:
	for ; settled < vlans+1 && time.Since(start) < patience; time.Sleep(50 * time.Millisecond) {
		files, err := os.ReadDir(links)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			if done[f.Name()] {
				continue
			}
			b, _ := os.ReadFile(filepath.Join(links, f.Name())) // it is there or comes
			switch state := string(b); {
			case strings.Contains(state, "ADMIN_STATE=configured"):
				settled, configured = settled+1, configured+1
			case strings.Contains(state, "ADMIN_STATE=failed"):
				settled++
			case !strings.Contains(state, "ADMIN_STATE=unmanaged"): // lo, and the NIC's far end
				continue poll // reading all of them again would take the time that we measure
			}
			done[f.Name()] = true
		}
	}
	return time.Since(start), vlans + 1 - configured
}

// startNetworkd runs networkd in this thread's network namespace until stop.
func startNetworkd(t *testing.T) (stop func()) {
	cmd := inPeers("/lib/systemd/systemd-networkd")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	return func() {
		if err := cmd.Process.Kill(); err != nil {
			t.Error(err)
		}
		_ = cmd.Wait() // killed
	}
}
