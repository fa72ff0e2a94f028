package netcfg

import (
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// routerWord is what a router says (RFC 4861, section 4.2): a prefix for
// addresses, itself as the default router, a name server and a domain (RFC
// 8106); for how many seconds it is the router, and the last two hold.
type routerWord struct {
	prefix string // the name server is its ::53
	domain string
	route  uint16
	dns    uint32
}

const long = 9000 // seconds that outlast each test

func (a routerWord) bytes() []byte {
	prefix := netip.MustParsePrefix(a.prefix)
	net, server := prefix.Addr().As16(), prefix.Addr().As16()
	server[15] = 0x53
	ra := append([]byte{134, 0, 0, 0, 64, 0}, binary.BigEndian.AppendUint16(nil, a.route)...)
	ra = append(ra, make([]byte, 8)...)
	ra = append(ra, 3, 4, byte(prefix.Bits()), 0xc0)
	ra = binary.BigEndian.AppendUint32(ra, long)
	ra = binary.BigEndian.AppendUint32(ra, long)
	ra = append(append(ra, 0, 0, 0, 0), net[:]...)
	ra = append(ra, 25, 3, 0, 0)
	ra = append(binary.BigEndian.AppendUint32(ra, a.dns), server[:]...)
	if a.domain == "" {
		return ra
	}
	var name []byte
	for label := range strings.SplitSeq(a.domain, ".") {
		name = append(append(name, byte(len(label))), label...)
	}
	name = append(name, make([]byte, 8-len(name)%8)...) // its end, and to a whole eight
	ra = append(ra, 31, byte(1+len(name)/8), 0, 0)
	return append(binary.BigEndian.AppendUint32(ra, a.dns), name...)
}

// advertiser is a router on a link of the other machine.
type advertiser struct {
	t    *testing.T
	conn net.PacketConn
	word chan routerWord
}

// advertise answers each solicitation on a link of the other machine.
func (n *namespace) advertise(t *testing.T, link string, word routerWord) *advertiser {
	t.Helper()
	a := &advertiser{t: t, word: make(chan routerWord, 1)}
	a.conn = n.listen(t, "ip6:ipv6-icmp", "::", link, func(fd int) error {
		at, err := net.InterfaceByName(link)
		if err != nil {
			return err
		}
		routers := &unix.IPv6Mreq{Multiaddr: [16]byte{0: 0xff, 1: 2, 15: 2}, Interface: uint32(at.Index)}
		if err := unix.SetsockoptIPv6Mreq(fd, unix.IPPROTO_IPV6, unix.IPV6_JOIN_GROUP, routers); err != nil {
			return err
		}
		// RFC 4861, section 6.1.2: what has made fewer hops came from afar.
		return unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_MULTICAST_HOPS, 255)
	})
	a.word <- word
	go a.answer()
	return a
}

func (a *advertiser) answer() {
	buf := make([]byte, 1500)
	for {
		n, _, err := a.conn.ReadFrom(buf)
		if err != nil {
			return // closed by the test
		}
		if n == 0 || buf[0] != 133 {
			continue
		}
		word := <-a.word
		a.word <- word
		if err := a.send(word); err != nil && !errors.Is(err, errMute) && !errors.Is(err, net.ErrClosed) {
			a.t.Errorf("advertise: %v", err)
		}
	}
}

// errMute is of a link whose own address may still be checked, or is to come.
var errMute = errors.New("no address to speak from")

func (a *advertiser) send(word routerWord) error {
	_, err := a.conn.WriteTo(word.bytes(), &net.IPAddr{IP: net.IPv6linklocalallnodes})
	if errors.Is(err, unix.EADDRNOTAVAIL) || errors.Is(err, unix.ENETUNREACH) {
		return errMute
	}
	return err
}

// say speaks unasked, as soon as the link can, and answers so from now on.
func (a *advertiser) say(word routerWord) error {
	<-a.word
	a.word <- word
	patience := time.After(10 * time.Second)
	for {
		err := a.send(word)
		if !errors.Is(err, errMute) {
			return err
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-patience:
			return err
		}
	}
}

// routed waits until the link has a default route by a router, or has none.
func (w *watched) routed(link string, want bool) error {
	err := w.WaitFor(w.ctx, func(Status) bool {
		have, err := w.lab.Observe(w.ctx)
		d := have.named(link)
		return err == nil && d != nil && want == slices.ContainsFunc(have.Routes, func(r RouteState) bool {
			return r.Proto == protoRA && r.To == netip.MustParsePrefix("::/0") && r.Link == d.Index
		})
	})
	if err != nil {
		return fmt.Errorf("wait for a router's route of %s, %t: %w", link, want, err)
	}
	return nil
}

// resolves waits until resolv.conf is these lines, without its comments.
func (w *watched) resolves(file string, want ...string) error {
	var lines []string
	err := w.WaitFor(w.ctx, func(s Status) bool {
		text, err := os.ReadFile(file)
		lines = slices.DeleteFunc(strings.Split(string(text), "\n"), func(l string) bool { return l == "" || l[0] == '#' })
		return err == nil && s.Converged && slices.Equal(lines, want)
	})
	if err != nil {
		return fmt.Errorf("wait for %q, have %q: %w", want, lines, err)
	}
	return nil
}

// routersSpeak has a router come late to each of our links, whose far ends are
// given: addresses, routes, name servers and domains appear. Then the first is
// no default router any more: its route goes, by the kernel, and nothing else.
// Then all say what is in resolv.conf for two seconds more: it ends there, while
// the route is back. All that time the node forwards. The document has one
// address for each link, and the name server 10.0.0.53.
func routersSpeak(t *testing.T, wish string, links, far []string, lay func(*watched, *namespace) error) {
	other := newNamespace(t)
	other.noDAD(t)
	file := t.TempDir() + "/resolv.conf"
	const document = "nameserver 10.0.0.53"
	told, words := []string{"search", document}, []routerWord{}
	for i := range links {
		words = append(words, routerWord{fmt.Sprintf("fd00:9:%d::/64", i+1), fmt.Sprintf("r%d.example", i), long, long})
		told[0] += " " + words[i].domain
		told = append(told, fmt.Sprintf("nameserver fd00:9:%d::53", i+1))
	}
	opt := Options{ResolvConf: file, Sysctls: []Sysctl{{Key: "net.ipv6.conf.all.forwarding", Value: "1"}}}
	watchWith(t, wish, opt, func(w *watched) error {
		var routers []*advertiser
		usable := func(n int) func() error {
			return func() error {
				return w.WaitFor(w.ctx, func(s Status) bool { return s.Converged && len(s.Addresses) == n })
			}
		}
		routed := func() error {
			for _, l := range links {
				if err := w.routed(l, true); err != nil {
					return err
				}
			}
			return nil
		}
		return first(
			func() error { return lay(w, other) },
			usable(len(links)),
			func() error { return w.resolves(file, document) },
			func() error {
				for i, l := range far {
					routers = append(routers, other.advertise(t, l, words[i]))
					if err := routers[i].say(words[i]); err != nil {
						return err
					}
				}
				return nil
			},
			usable(2*len(links)),
			routed,
			func() error { return w.resolves(file, told...) },
			func() error { words[0].route = 0; return routers[0].say(words[0]) },
			func() error { return w.routed(links[0], false) },
			usable(2*len(links)),
			func() error { return w.resolves(file, told...) },
			func() error {
				for i, r := range routers {
					words[i].route, words[i].dns = long, 2
					if err := r.say(words[i]); err != nil {
						return err
					}
				}
				return nil
			},
			func() error { return w.resolves(file, document) },
			routed,
			usable(2*len(links)),
		)
	})
}

func TestKernelRouterSpeaks(t *testing.T) {
	wish := `ethernets: {eth0: {accept-ra: true, addresses: [10.9.0.1/24], nameservers: {addresses: [10.0.0.53]}, ra-overrides: {use-domains: true}}}`
	routersSpeak(t, wish, []string{"eth0"}, []string{"peer-eth0"}, func(w *watched, other *namespace) error {
		err := w.lab.AddNIC("eth0", "02:00:00:00:00:00")
		w.lab.move(t, "eth0", other)
		return err
	})
}
