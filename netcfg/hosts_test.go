package netcfg

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

func TestHostsFile(t *testing.T) {
	got := hostsFile([]Host{
		{netip.MustParseAddr("10.0.0.1"), []string{"n1.example.org", "n1"}},
		{netip.MustParseAddr("fd00::2"), []string{"n2\n10.6.6.6 bank.example"}},
		{netip.MustParseAddr("fd00::3"), []string{"n 3", "n3"}},
		{netip.MustParseAddr("fe80::1%eth0"), []string{"n4"}},
		{netip.Addr{}, []string{"n5"}},
	})
	if want := localHosts + "10.0.0.1 n1.example.org n1\nfd00::3 n3\n"; got != want {
		t.Errorf("got\n%s", got)
	}
}

// Ten thousand members that change while the network converges: the file is
// whole at each look, the last wish is what stays, and the log has counts.
func TestManyHosts(t *testing.T) {
	const members = 10_000
	file := filepath.Join(t.TempDir(), "hosts")
	list := func(version int) []Host {
		out := make([]Host, members)
		for i := range out {
			out[i] = Host{netip.AddrFrom4([4]byte{10, byte(version), byte(i >> 8), byte(i)}), []string{fmt.Sprintf("n%d", i)}}
		}
		return out
	}
	said := 0
	options := Options{Hosts: file, Applied: func(op Op) { said += len(op.String()) }}
	watchWith(t, `ethernets: {eth0: {addresses: [10.9.0.1/24]}}`, options, func(w *watched) error {
		if err := w.lab.AddNIC("eth0", "02:00:00:00:00:00"); err != nil {
			return err
		}
		var setting sync.WaitGroup
		for v := range 4 {
			setting.Go(func() { w.SetHosts(list(v)) })
		}
		setting.Wait()
		w.SetHosts(list(9))
		want := hostsFile(list(9))
		err := w.WaitFor(w.ctx, func(s Status) bool {
			text, err := os.ReadFile(file)
			if err == nil && strings.Count(string(text), "\n") != members+strings.Count(localHosts, "\n") {
				t.Errorf("a file of %d lines", strings.Count(string(text), "\n"))
			}
			return s.Converged && string(text) == want
		})
		if err != nil {
			return err
		}
		if err := os.Remove(file); err != nil {
			return err
		}
		if err := w.does(delAddr("eth0", "10.9.0.1/24")); err != nil { // an event
			return err
		}
		return w.WaitFor(w.ctx, func(s Status) bool {
			text, _ := os.ReadFile(file)
			return s.Converged && string(text) == want
		})
	})
	if said > 4096 {
		t.Errorf("%d bytes of log", said)
	}
}
