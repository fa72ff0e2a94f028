package netcfg

import (
	"encoding/hex"
	"net/netip"
	"slices"
	"testing"
	"time"
)

// userOption is a message of RTNLGRP_ND_USEROPT with the option, hex, of link 7.
func userOption(t testing.TB, option string) []byte {
	b, err := hex.DecodeString(option)
	if err != nil {
		t.Fatal(err)
	}
	return append([]byte{10, 0, byte(len(b)), 0, 7, 0, 0, 0, ndAdvertisement, 0, 0, 0, 0, 0, 0, 0}, b...)
}

const (
	rdnss     = "1903" + "0000" + "00000258" + "fd000009000000000000000000000053"
	rdnssTwo  = "1905" + "0000" + "ffffffff" + "fd000009000000000000000000000053" + "fe800000000000000000000000000053"
	rdnssGone = "1903" + "0000" + "00000000" + "fd000009000000000000000000000053"
	dnssl     = "1f04" + "0000" + "00000258" + "076578616d706c65" + "036f726700" + "016100" + "0000000000000000"
)

func TestParseUserOption(t *testing.T) {
	for _, c := range []struct {
		name, option string
		want         advertised
		bad          bool
	}{
		{"a server", rdnss, advertised{lifetime: 600 * time.Second, servers: addrs("fd00:9::53")}, false},
		{"two for ever", rdnssTwo, advertised{lifetime: endless, servers: addrs("fd00:9::53", "fe80::53")}, false},
		{"taken back", rdnssGone, advertised{servers: addrs("fd00:9::53")}, false},
		{"domains", dnssl, advertised{lifetime: 600 * time.Second, domains: []string{"example.org", "a"}}, false},
		{"another option", "2501" + "0000" + "00000258", advertised{lifetime: 600 * time.Second}, false},
		{"no server", "1901" + "0000" + "00000258", advertised{}, true},
		{"half a server", "1902" + "0000" + "00000258" + "fd00000900000000", advertised{}, true},
		{"length of nothing", "1900" + "0000" + "00000258", advertised{}, true},
		{"longer than it is", "19ff" + "0000" + "00000258", advertised{}, true},
		{"server of all", "1903" + "0000" + "00000258" + "ff020000000000000000000000000001", advertised{}, true},
		{"a line break in a domain", "1f02" + "0000" + "00000258" + "03610a6200000000", advertised{}, true},
		{"a domain without end", "1f02" + "0000" + "00000258" + "0761626364656667", advertised{}, true},
	} {
		a, err := parseUserOption(userOption(t, c.option))
		if c.bad {
			if err == nil {
				t.Errorf("%s is taken: %+v", c.name, a)
			}
			continue
		}
		if err != nil || a.link != 7 || a.lifetime != c.want.lifetime || !slices.Equal(a.servers, c.want.servers) || !slices.Equal(a.domains, c.want.domains) {
			t.Errorf("%s: %+v, %v", c.name, a, err)
		}
	}
}

func addrs(list ...string) (out []netip.Addr) {
	for _, s := range list {
		out = append(out, netip.MustParseAddr(s))
	}
	return out
}

func FuzzParseUserOption(f *testing.F) {
	for _, option := range []string{rdnss, rdnssTwo, rdnssGone, dnssl} {
		f.Add(userOption(f, option))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		a, err := parseUserOption(data)
		if err != nil {
			return
		}
		for _, d := range a.domains {
			if d == "" || len(d) > 254 {
				t.Errorf("domain %q", d)
			}
		}
		var table advertisements
		table.learn(a, time.Unix(0, 0))
		table.known(time.Unix(1, 0), State{Links: []LinkState{{Index: a.link, Name: "eth0"}}})
	})
}

// What routers say holds for its lifetime and in the order in which it came;
// a lifetime of 0 takes it back, and a link that goes takes it along.
func TestAdvertisements(t *testing.T) {
	start := time.Unix(0, 0)
	have := State{Links: []LinkState{{Index: 7, Name: "eth0"}, {Index: 8, Name: "eth1"}}}
	cfg := compileWish(t, `ethernets: {eth0: {nameservers: {addresses: [10.0.0.53]}, ra-overrides: {use-domains: true}}, eth1: {accept-ra: false}}`)
	var table advertisements
	servers := func(after time.Duration) []netip.Addr {
		return cfg.withAdvertised(table.known(start.Add(after), have), have).dns().servers
	}
	check := func(after time.Duration, want ...string) {
		t.Helper()
		if got := servers(after); !slices.Equal(got, addrs(want...)) {
			t.Errorf("after %s: %v, want %v", after, got, want)
		}
	}
	learn := func(after, lifetime time.Duration, link int, servers ...string) {
		table.learn(advertised{link: link, servers: addrs(servers...), lifetime: lifetime}, start.Add(after))
	}
	check(0, "10.0.0.53")
	learn(0, 600*time.Second, 7, "fd00::2", "fe80::53")
	learn(0, 600*time.Second, 8, "fd00::8") // its link does not listen
	check(0, "10.0.0.53", "fd00::2", "fe80::53%eth0")
	learn(time.Second, 60*time.Second, 7, "fd00::1", "fd00::2")
	check(time.Second, "10.0.0.53", "fd00::2", "fe80::53%eth0", "fd00::1")
	if left, some := table.next(start.Add(11 * time.Second)); !some || left != 50*time.Second {
		t.Errorf("next in %s, %t", left, some)
	}
	check(61*time.Second, "10.0.0.53", "fe80::53%eth0")
	learn(62*time.Second, 0, 7, "fe80::53")
	check(62*time.Second, "10.0.0.53")
	table.learn(advertised{link: 7, domains: []string{"example.org"}, lifetime: endless}, start)
	if d := cfg.withAdvertised(table.known(start, have), have).dns(); !slices.Equal(d.search, []string{"example.org"}) {
		t.Errorf("domains %v", d.search)
	}
	for i := range 100 {
		learn(63*time.Second, endless, 7, netip.AddrFrom16([16]byte{0xfd, 15: byte(i)}).String())
	}
	if n := len(servers(63 * time.Second)); n > 1+maxAdvertised {
		t.Errorf("%d servers", n)
	}
	have.Links = have.Links[1:]
	if d, known := table.known(start, have)[7]; known {
		t.Errorf("of a link that is no more: %v", d)
	}
}
