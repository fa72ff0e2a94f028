//go:build soak

package netcfg

import (
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// TestKernelConnectionSurvivesRenewals talks over one TCP connection while a
// lease of 12 s is renewed again and again, and over two restarts of the
// reconciler; the only thing ever written is the address's lifetime. Then the
// server goes, and with the lease the address.
func TestKernelConnectionSurvivesRenewals(t *testing.T) {
	l := newDHCPLab(t, "10.9.0.1/24")
	stopServer := l.kea(t, 4, `"valid-lifetime": 12, "renew-timer": 4, "rebind-timer": 8, "subnet4": [{"id": 1, "subnet": "10.9.0.0/24", "pools": [{"pool": "10.9.0.100-10.9.0.200"}]}]`)
	var mu sync.Mutex
	var ops []string
	dir := t.TempDir()
	run := func(d time.Duration) *Reconciler {
		r := New(compileWish(t, `ethernets: {eth0: {dhcp4: true}}`), quiet(), Options{Leases: dir, Applied: func(op Op) {
			mu.Lock()
			defer mu.Unlock()
			ops = append(ops, op.String())
		}})
		ctx, stop := context.WithTimeout(t.Context(), d)
		defer stop()
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
		return r
	}
	r := run(5 * time.Second)
	leases := r.Status().Leases
	if len(leases) != 1 || len(leases[0].Addresses) != 1 {
		t.Fatalf("leases %+v", leases)
	}
	ops = nil

	conn := l.other.echo(t, leases[0].Addresses[0].Addr().String())
	stopTalk := make(chan struct{})
	talked := make(chan error, 1)
	go func() { talked <- talk(conn, stopTalk) }()
	for range 3 {
		run(15 * time.Second)
	}
	close(stopTalk)
	if err := <-talked; err != nil {
		t.Error(err)
	}
	if len(ops) < 5 {
		t.Errorf("renewed %d times in 45 s", len(ops))
	}
	for _, op := range ops {
		if !strings.HasPrefix(op, "replace address 10.9.0.") {
			t.Errorf("did %s", op)
		}
	}

	stopServer()
	r = run(20 * time.Second)
	if r.Status().Ready() || !strings.Contains(fmt.Sprint(r.Status().Waits), "ended without a renewal") {
		t.Errorf("without a server: %+v", r.Status())
	}
}

// echo is a connection from an echo server on this machine to the other one.
// The listener is on this thread, which is in the lab's namespace.
func (n *namespace) echo(t *testing.T, address string) net.Conn {
	t.Helper()
	ln, err := net.Listen("tcp", net.JoinHostPort(address, "0"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ln.Close() })
	go func() {
		if c, err := ln.Accept(); err == nil {
			_, _ = io.Copy(c, c)
		}
	}()
	type result struct {
		net.Conn
		error
	}
	dialled := make(chan result)
	n.run <- func() {
		c, err := net.DialTimeout("tcp", ln.Addr().String(), 5*time.Second)
		dialled <- result{c, err}
	}
	got := <-dialled
	if got.error != nil {
		t.Fatal(got.error)
	}
	t.Cleanup(func() { got.Close() })
	return got.Conn
}

// talk sends a byte each tenth of a second and wants it back within 2 s.
func talk(conn net.Conn, stop <-chan struct{}) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-stop:
			return nil
		case <-tick.C:
		}
		if err := conn.SetDeadline(time.Now().Add(2 * time.Second)); err != nil {
			return err
		}
		b := []byte{byte(i)}
		if _, err := conn.Write(b); err != nil {
			return fmt.Errorf("after %d bytes: %w", i, err)
		}
		if _, err := io.ReadFull(conn, b); err != nil || b[0] != byte(i) {
			return fmt.Errorf("after %d bytes: %v, %v", i, b, err)
		}
	}
}

// TestKernelLossyLink: on a wire that loses every fifth packet each way, and
// one that is silent for 75 s, as spanning tree is, the lease comes all the
// same.
func TestKernelLossyLink(t *testing.T) {
	for seed := range uint64(5) {
		t.Run(fmt.Sprintf("loss, seed %d", seed), func(t *testing.T) {
			t.Parallel()
			l := newDHCPLab(t, "10.9.0.1/24")
			(&scripted{t: t, loss: 0.2, seed: seed}).serve(l.other, "peer-eth0")
			comesIn(t, 0, 2*time.Minute)
		})
	}
	t.Run("silence", func(t *testing.T) {
		t.Parallel()
		l := newDHCPLab(t, "10.9.0.1/24")
		go func() {
			time.Sleep(75 * time.Second)
			(&scripted{t: t}).serve(l.other, "peer-eth0")
		}()
		comesIn(t, 75*time.Second, 3*time.Minute)
	})
}

func comesIn(t *testing.T, least, most time.Duration) {
	t.Helper()
	began := time.Now()
	if err := leased(t, New(compileWish(t, `ethernets: {eth0: {dhcp4: true}}`), quiet(), Options{}), most); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	t.Logf("leased after %s", took.Round(time.Millisecond))
	if took < least {
		t.Error("that is too soon")
	}
}
