package netcfg

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// kernelLab is the real kernel in a network namespace of the test's own.
type kernelLab struct{ *kernel }

// newKernelLab moves the test's goroutine to a thread in a new namespace for
// good: the thread ends with the test, and the namespace with it.
func newKernelLab(t testing.TB) lab {
	t.Helper()
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		t.Fatalf("make a network namespace (tests of the kernel run as root): %v", err)
	}
	k, err := openKernel("")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.Close() })
	return kernelLab{k}
}

func (l kernelLab) events(t testing.TB) <-chan struct{} {
	ev, err := watchKernel(&advertisements{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ev.Close() })
	return ev.C()
}

// AddNIC makes a veth pair whose far end is up, which gives carrier.
func (l kernelLab) AddNIC(name, mac string) error {
	const vethInfoPeer = 1 // VETH_INFO_PEER, include/uapi/linux/veth.h
	peer := "peer-" + name
	err := l.nl.write(bg, unix.RTM_NEWLINK, unix.NLM_F_CREATE|unix.NLM_F_EXCL, ifInfo(0, 0, 0), func(ae *attrs) {
		ae.String(unix.IFLA_IFNAME, name)
		ae.Bytes(unix.IFLA_ADDRESS, macBytes(mac))
		ae.Nested(unix.IFLA_LINKINFO, func(in *attrs) error {
			in.String(unix.IFLA_INFO_KIND, "veth")
			in.Nested(unix.IFLA_INFO_DATA, func(data *attrs) error {
				pe := attrs{}
				pe.String(unix.IFLA_IFNAME, peer)
				data.Bytes(vethInfoPeer, append(ifInfo(0, 0, 0), pe.b...))
				return nil
			})
			return nil
		})
	})
	if err != nil {
		return err
	}
	index, err := l.indexOf(peer)
	if err != nil {
		return err
	}
	return l.nl.write(bg, unix.RTM_NEWLINK, 0, ifInfo(index, unix.IFF_UP, unix.IFF_UP), none)
}

func TestKernelNICs(t *testing.T) {
	for _, s := range slices.Concat(nicScenarios, policyScenarios) {
		t.Run(s.name, func(t *testing.T) { s.run(t, newKernelLab, always) })
	}
}

// namespace is another machine: functions run on a thread in a network
// namespace of their own.
type namespace struct {
	fd  int
	run chan func()
}

func newNamespace(t testing.TB) *namespace {
	n := &namespace{run: make(chan func())}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNET)
		if err == nil {
			n.fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		}
		ready <- err
		for f := range n.run {
			f()
		}
	}()
	if err := <-ready; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		close(n.run)
		unix.Close(n.fd)
	})
	return n
}

func (n *namespace) do(t *testing.T, ops ...Op) {
	t.Helper()
	failed := make(chan error)
	n.run <- func() {
		k, err := openKernel("")
		if err == nil {
			defer k.Close()
			_, err = k.Observe(bg)
		}
		for _, op := range ops {
			if err == nil {
				err = k.Apply(bg, op)
			}
		}
		failed <- err
	}
	if err := <-failed; err != nil {
		t.Fatal(err)
	}
}

// move puts the far end of a NIC on the other machine, and up.
func (l kernelLab) move(t *testing.T, nic string, n *namespace) {
	t.Helper()
	index, err := l.indexOf("peer-" + nic)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.setLink(bg, index, func(ae *attrs) { ae.Uint32(unix.IFLA_NET_NS_FD, uint32(n.fd)) }); err != nil {
		t.Fatal(err)
	}
	n.do(t, up("peer-"+nic))
}

// macOf is the MAC of an interface in the calling thread's namespace.
func macOf(name string) string {
	s, _ := Observe(bg, "")
	if l := s.named(name); l != nil {
		return l.MAC
	}
	return ""
}

// After Converge an IPv6 address can be bound at once, and IPv4 did not wait
// for it; the second Converge writes nothing.
func TestKernelWaitsForDAD(t *testing.T) {
	l := newKernelLab(t).(kernelLab)
	if err := l.AddNIC("eth0", "02:00:00:00:00:00"); err != nil {
		t.Fatal(err)
	}
	r := New(compileWish(t, `ethernets: {eth0: {addresses: [10.9.0.1/24, "fd00:9::1/64"], routes: [{to: "fd01::/48", via: "fd00:9::2", from: "fd00:9::1"}]}}`), quiet(), Options{})
	report, err := r.Converge(t.Context())
	if err != nil || len(report.Waits) > 0 {
		t.Fatalf("%v, waits %v", err, report.Waits)
	}
	ln, err := net.Listen("tcp", "[fd00:9::1]:0")
	if err != nil {
		t.Fatal(err)
	}
	ln.Close()
	want := []netip.Addr{netip.MustParseAddr("10.9.0.1"), netip.MustParseAddr("fd00:9::1")}
	if got := r.Status().Addresses; !slices.Equal(got, want) {
		t.Errorf("usable %v, want %v", got, want)
	}
	again, err := r.Converge(t.Context())
	if err != nil || again.Writes != 0 || again.Passes != 1 {
		t.Errorf("second time: %+v, %v", again, err)
	}
}

// Another machine has our address: named in the status, and won when it goes,
// also by a node that forwards.
func TestKernelDuplicateAddress(t *testing.T) {
	for _, forwarding := range []string{"0", "1"} {
		t.Run("forwarding "+forwarding, func(t *testing.T) {
			duplicateAddress(t, Options{Sysctls: []Sysctl{{Key: "net.ipv6.conf.all.forwarding", Value: forwarding}}})
		})
	}
}

func duplicateAddress(t *testing.T, opt Options) {
	t.Helper()
	l := newKernelLab(t).(kernelLab)
	other := newNamespace(t)
	if err := l.AddNIC("eth0", "02:00:00:00:00:00"); err != nil {
		t.Fatal(err)
	}
	l.move(t, "eth0", other)
	if _, err := l.Observe(bg); err != nil {
		t.Fatal(err)
	}
	if err := l.Apply(bg, up("eth0")); err != nil {
		t.Fatal(err)
	}
	other.do(t, addr("peer-eth0", "fd00:9::1/64"))
	otherHas := New(compileWish(t, `ethernets: {peer-eth0: {addresses: ["fd00:9::1/64"]}}`), quiet(), Options{})
	settled := make(chan error)
	other.run <- func() { _, err := otherHas.Converge(bg); settled <- err }
	if err := <-settled; err != nil {
		t.Fatal(err)
	}

	r := New(compileWish(t, `ethernets: {eth0: {addresses: [10.9.0.1/24, "fd00:9::1/64"]}}`), quiet(), opt)
	holder := make(chan string)
	other.run <- func() { holder <- macOf("peer-eth0") }
	want := "another machine has fd00:9::1 (duplicate address detected), its MAC is " + <-holder
	due := func() Report { // what Run would wait for
		for _, retry := range r.failures {
			retry.next = time.Now()
		}
		report, err := r.Converge(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return report
	}
	// On a busy machine the holder's answer may take longer than we wait for it.
	report := due()
	for try := 0; try < 3 && len(report.Waits) == 1 && report.Waits[0].Reason != want; try++ {
		t.Logf("asked in vain: %v", report.Waits)
		report = due()
	}
	if len(report.Waits) != 1 || report.Waits[0].Reason != want {
		t.Errorf("waits %v", report.Waits)
	}
	st := r.Status()
	if st.Links[0].Addresses[1].State != "dadfailed" || !slices.Equal(st.Addresses, []netip.Addr{netip.MustParseAddr("10.9.0.1")}) {
		t.Errorf("status %+v", st)
	}

	other.do(t, Op{Verb: OpDeleteAddress, Link: "peer-eth0", Address: netip.MustParsePrefix("fd00:9::1/64")})
	if report = due(); len(report.Waits) != 0 || r.Status().Links[0].Addresses[1].State != "ok" {
		t.Errorf("waits %v, %+v", report.Waits, r.Status().Links)
	}
}

// The kernel switches IPv6 off on a link whose own link-local address is a
// duplicate, if accept_dad is 2; an address then cannot be added before it is on.
func TestKernelDuplicateLinkLocal(t *testing.T) {
	l := newKernelLab(t).(kernelLab)
	other := newNamespace(t)
	if err := l.AddNIC("eth0", "02:00:00:00:00:00"); err != nil {
		t.Fatal(err)
	}
	l.move(t, "eth0", other)
	if _, err := l.Observe(bg); err != nil {
		t.Fatal(err)
	}
	if err := sysctlOf("eth0", "accept_dad", "2"); err != nil {
		t.Fatal(err)
	}
	unchecked := make(chan error)
	other.run <- func() { unchecked <- sysctlOf("peer-eth0", "accept_dad", "0") }
	if err := <-unchecked; err != nil {
		t.Fatal(err)
	}
	other.do(t, addr("peer-eth0", "fe80::ff:fe00:0/64")) // that of eth0's MAC
	ev := l.events(t)
	if err := l.Apply(bg, up("eth0")); err != nil {
		t.Fatal(err)
	}
	for off := false; !off; {
		select {
		case <-ev:
		case <-time.After(10 * time.Second):
			t.Fatal("the kernel did not switch IPv6 off")
		}
		s, err := l.Observe(bg)
		if err != nil {
			t.Fatal(err)
		}
		off = s.named("eth0").DisableIPv6
	}
	if err := l.Apply(bg, addr("eth0", "fd00:9::1/64")); !errors.Is(err, unix.EACCES) {
		t.Fatalf("with IPv6 off: %v", err)
	}
	other.do(t, Op{Verb: OpDeleteAddress, Link: "peer-eth0", Address: netip.MustParsePrefix("fe80::ff:fe00:0/64")})
	scenario{shows: []string{"eth0 fd00:9::1/64"}}.check(t, New(compileWish(t, `ethernets: {eth0: {addresses: ["fd00:9::1/64"]}}`), quiet(), Options{}), l)
}

// A list that changes while it is read is read again, never planned from.
func TestKernelInterruptedDump(t *testing.T) {
	l := newKernelLab(t).(kernelLab)
	if err := l.AddNIC("eth0", "02:00:00:00:00:00"); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Observe(bg); err != nil {
		t.Fatal(err)
	}
	prefix := func(i int) string { return fmt.Sprintf("10.9.%d.%d/32", i/250, i%250+1) }
	const fixed = 500 // several messages of a dump
	for i := range fixed {
		if err := l.Apply(bg, addr("eth0", prefix(i))); err != nil {
			t.Fatal(err)
		}
	}
	storm, err := openKernel("")
	if err != nil {
		t.Fatal(err)
	}
	defer storm.Close()
	storm.index = map[string]int{"eth0": l.index["eth0"]}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			op := addr("eth0", "10.8.0.1/32")
			_ = storm.Apply(ctx, op)
			op.Verb = OpDeleteAddress
			_ = storm.Apply(ctx, op)
			runtime.Gosched()
		}
	}()
	for range 50 {
		s, err := l.Observe(bg)
		if err != nil && !errors.Is(err, errInterrupted) {
			t.Fatal(err)
		}
		if n := len(s.Addresses); err == nil && n != fixed && n != fixed+1 {
			t.Fatalf("%d addresses", n)
		}
	}
	stop()
	<-ended
}
