package netcfg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	"golang.org/x/sys/unix"
)

// scripted is a DHCP server on the other machine that says what a test has it
// say. Its own words are right: 10.9.0.50 of 10.9.0.1, for ten minutes.
type scripted struct {
	t     *testing.T
	heard func(request *dhcpv4.DHCPv4)                 // nil for nobody
	noise func(request, right *dhcpv4.DHCPv4) [][]byte // said before the right answer
	terms []dhcpv4.Option                              // in place of, or beside, the right ones
	loss  float64                                      // of 1, each way
	seed  uint64
}

var (
	right = net.IPv4(10, 9, 0, 50)
	own   = net.IPv4(10, 9, 0, 1)
	evil  = net.IPv4(10, 9, 0, 2)
)

// serve answers on a link of the other machine until the test ends.
func (s *scripted) serve(n *namespace, link string) {
	s.t.Helper()
	go s.answer(n.listen(s.t, "udp4", ":67", link, func(fd int) error {
		return unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_BROADCAST, 1)
	}))
}

// listen has a socket on one link of the other machine until the test ends.
func (n *namespace) listen(t *testing.T, network, address, link string, set func(fd int) error) net.PacketConn {
	t.Helper()
	type result struct {
		net.PacketConn
		error
	}
	listening := make(chan result)
	n.run <- func() {
		lc := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) error {
			var err error
			failed := c.Control(func(fd uintptr) {
				if err = set(int(fd)); err == nil {
					err = unix.BindToDevice(int(fd), link)
				}
			})
			return errors.Join(failed, err)
		}}
		c, err := lc.ListenPacket(bg, network, address)
		listening <- result{c, err}
	}
	got := <-listening
	if got.error != nil {
		t.Fatal(got.error)
	}
	t.Cleanup(func() { got.Close() })
	return got.PacketConn
}

func (s *scripted) answer(conn net.PacketConn) {
	chance := rand.New(rand.NewPCG(s.seed, 0))
	buf := make([]byte, 2048)
	for {
		n, _, err := conn.ReadFrom(buf)
		if err != nil {
			return // closed by the test
		}
		request, err := dhcpv4.FromBytes(buf[:n])
		if err != nil {
			s.t.Errorf("the client sent %x: %v", buf[:n], err)
			continue
		}
		if s.heard != nil {
			s.heard(request)
		}
		reply := s.reply(request)
		if reply == nil || chance.Float64() < s.loss {
			continue
		}
		var all [][]byte
		if s.noise != nil {
			all = s.noise(request, reply)
		}
		for _, b := range append(all, reply.ToBytes()) {
			if chance.Float64() < s.loss {
				continue
			}
			if _, err := conn.WriteTo(b, &net.UDPAddr{IP: net.IPv4bcast, Port: 68}); err != nil && !errors.Is(err, net.ErrClosed) {
				s.t.Errorf("answer: %v", err)
			}
		}
	}
}

// reply is the right answer, nil for none.
func (s *scripted) reply(request *dhcpv4.DHCPv4) *dhcpv4.DHCPv4 {
	kind := dhcpv4.MessageTypeOffer
	switch request.MessageType() {
	case dhcpv4.MessageTypeDiscover:
	case dhcpv4.MessageTypeRequest:
		kind = dhcpv4.MessageTypeAck
	default:
		return nil
	}
	reply, err := dhcpv4.NewReplyFromRequest(request, dhcpv4.WithMessageType(kind), dhcpv4.WithYourIP(right),
		dhcpv4.WithOption(dhcpv4.OptServerIdentifier(own)), dhcpv4.WithOption(dhcpv4.OptRouter(own)),
		dhcpv4.WithNetmask(net.CIDRMask(24, 32)), dhcpv4.WithLeaseTime(600))
	if err != nil {
		s.t.Error(err)
		return nil
	}
	for _, o := range s.terms {
		reply.UpdateOption(o)
	}
	return reply
}

// changed is a copy of a reply with a change.
func changed(reply *dhcpv4.DHCPv4, change func(*dhcpv4.DHCPv4)) []byte {
	c, err := dhcpv4.FromBytes(reply.ToBytes())
	if err != nil {
		panic(err) // it is the library's own
	}
	change(c)
	return c.ToBytes()
}

func says(code dhcpv4.GenericOptionCode, value ...byte) dhcpv4.Option {
	return dhcpv4.OptGeneric(code, value)
}

// hostile are servers that were met in the field, and worse ones.
var hostile = []struct {
	name   string
	noise  func(request, right *dhcpv4.DHCPv4) [][]byte
	terms  []dhcpv4.Option
	want   string // the address and its lifetime in seconds; 10.9.0.50/24 for 600 if empty
	routes string // the default route by 10.9.0.1 if empty
}{
	{name: "answers to other clients", noise: func(_, right *dhcpv4.DHCPv4) [][]byte {
		return [][]byte{
			changed(right, func(r *dhcpv4.DHCPv4) { r.TransactionID[0]++; r.YourIPAddr = net.IPv4(10, 9, 0, 66) }),
			changed(right, func(r *dhcpv4.DHCPv4) { r.ClientHWAddr[5]++; r.YourIPAddr = net.IPv4(10, 9, 0, 67) }),
		}
	}},
	{name: "another server refuses all", noise: func(request, right *dhcpv4.DHCPv4) [][]byte {
		if request.MessageType() != dhcpv4.MessageTypeRequest {
			return nil
		}
		return [][]byte{changed(right, func(r *dhcpv4.DHCPv4) {
			r.UpdateOption(dhcpv4.OptMessageType(dhcpv4.MessageTypeNak))
			r.UpdateOption(dhcpv4.OptServerIdentifier(evil))
			r.YourIPAddr = net.IPv4zero
		})}
	}},
	{name: "torn and random messages", noise: func(_, right *dhcpv4.DHCPv4) [][]byte {
		whole := right.ToBytes()
		random := make([]byte, 300)
		for i := range random {
			random[i] = byte(rand.Uint32())
		}
		beyond := append(append([]byte{}, whole[:240]...), 53, 200, 2) // an option longer than the message
		return [][]byte{nil, whole[:1], whole[:239], whole[:len(whole)/2], random, beyond}
	}},
	{name: "an offer for no machine", noise: func(_, right *dhcpv4.DHCPv4) [][]byte {
		var all [][]byte
		for _, ip := range []net.IP{net.IPv4zero, net.IPv4bcast, net.IPv4(224, 0, 0, 1), net.IPv4(127, 0, 0, 1)} {
			all = append(all, changed(right, func(r *dhcpv4.DHCPv4) {
				r.YourIPAddr = ip
				r.UpdateOption(dhcpv4.OptServerIdentifier(evil))
			}))
		}
		return all
	}},
	{name: "offers without a time, of no time, without a server", noise: func(_, right *dhcpv4.DHCPv4) [][]byte {
		return [][]byte{
			changed(right, func(r *dhcpv4.DHCPv4) { r.Options.Del(dhcpv4.OptionIPAddressLeaseTime) }),
			changed(right, func(r *dhcpv4.DHCPv4) { r.UpdateOption(says(51, 0, 0, 0, 0)) }),
			changed(right, func(r *dhcpv4.DHCPv4) { r.UpdateOption(says(51, 1)) }),
			changed(right, func(r *dhcpv4.DHCPv4) { r.Options.Del(dhcpv4.OptionServerIdentifier) }),
			changed(right, func(r *dhcpv4.DHCPv4) { r.UpdateOption(says(1, 255, 0, 255, 0)) }), // no mask
		}
	}},
	{name: "for ever", terms: []dhcpv4.Option{says(51, 255, 255, 255, 255)}, want: "10.9.0.50/24 for 4294967295"},
	{name: "for 136 years", terms: []dhcpv4.Option{says(51, 255, 255, 255, 254)}, want: "10.9.0.50/24 for 4294967294"},
	{name: "to be renewed after its end", terms: []dhcpv4.Option{says(58, 127, 255, 255, 255), says(59, 0, 0, 0, 1)}},
	{name: "a router elsewhere", terms: []dhcpv4.Option{dhcpv4.OptRouter(net.IPv4(203, 0, 113, 1))},
		routes: "default via 203.0.113.1 src 10.9.0.50 metric 100 onlink"},
	{name: "one address and a router elsewhere", terms: []dhcpv4.Option{dhcpv4.OptSubnetMask(net.CIDRMask(32, 32)), dhcpv4.OptRouter(net.IPv4(203, 0, 113, 1))},
		want: "10.9.0.50/32 for 600", routes: "default via 203.0.113.1 src 10.9.0.50 metric 100 onlink"},
	{name: "the way to the router last", terms: []dhcpv4.Option{says(121, 0, 203, 0, 113, 1, 32, 203, 0, 113, 1, 0, 0, 0, 0)},
		routes: "default via 203.0.113.1 src 10.9.0.50 metric 100, 203.0.113.1/32 metric 100"},
	{name: "the way to the router first", terms: []dhcpv4.Option{says(121, 32, 203, 0, 113, 1, 0, 0, 0, 0, 0, 203, 0, 113, 1)},
		routes: "default via 203.0.113.1 src 10.9.0.50 metric 100, 203.0.113.1/32 metric 100"},
	{name: "classless routes without a default", terms: []dhcpv4.Option{says(121, 24, 192, 0, 2, 10, 9, 0, 1)},
		routes: "192.0.2.0/24 via 10.9.0.1 src 10.9.0.50 metric 100"},
	{name: "an MTU of 1, and names that break lines", terms: []dhcpv4.Option{says(26, 0, 1), says(15, []byte("a\nnameserver 6.6.6.6")...), says(6, 255, 255, 255, 255, 10, 9, 0)}},
}

// TestKernelHostileServers: whatever else is said on the wire, the client ends
// with what the right server means, in the kernel, with nothing more.
func TestKernelHostileServers(t *testing.T) {
	for _, h := range hostile {
		t.Run(h.name, func(t *testing.T) {
			l := newDHCPLab(t, "10.9.0.1/24")
			(&scripted{t: t, noise: h.noise, terms: h.terms}).serve(l.other, "peer-eth0")
			resolv := t.TempDir() + "/resolv.conf"
			r := New(compileWish(t, `ethernets: {eth0: {dhcp4: true, dhcp4-overrides: {use-domains: true}}}`), quiet(), Options{ResolvConf: resolv})
			if err := leased(t, r, 20*time.Second); err != nil {
				t.Fatal(err)
			}
			have, err := Observe(bg, resolv)
			if err != nil {
				t.Fatal(err)
			}
			if want := cmp.Or(h.want, "10.9.0.50/24 for 600"); !near(terms(have), want) {
				t.Errorf("has %s, want %s", terms(have), want)
			}
			if got, want := ownRoutes(have), cmp.Or(h.routes, "default via 10.9.0.1 src 10.9.0.50 metric 100"); got != want {
				t.Errorf("routes %q, want %q", got, want)
			}
			if d := have.named("eth0"); d.MTU != 1500 || strings.Contains(*have.ResolvConf, "6.6.6.6") {
				t.Errorf("mtu %d, %q", d.MTU, *have.ResolvConf)
			}
		})
	}
}

// leased runs r until it has its lease and all that comes with it.
func leased(t *testing.T, r *Reconciler, patience time.Duration) error {
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	met := make(chan error, 1)
	go func() {
		defer stop()
		met <- r.WaitFor(ctx, func(s Status) bool { return s.Converged && s.Ready() && len(s.Leases) == 1 })
	}()
	if err := r.Run(ctx); err != nil {
		return err
	}
	if err := <-met; err != nil {
		return fmt.Errorf("%w: %+v", err, r.Status())
	}
	return nil
}

// terms are the IPv4 addresses of eth0, and how long they are valid.
func terms(s State) string {
	var all []string
	for _, a := range s.Addresses {
		if d := s.named("eth0"); d == nil || a.Link != d.Index || !a.Prefix.Addr().Is4() {
			continue
		}
		all = append(all, fmt.Sprintf("%s for %d", a.Prefix, a.Valid))
	}
	return strings.Join(all, ", ")
}

// near allows for ten seconds that have passed.
func near(have, want string) bool {
	var a, b netip.Prefix
	var i, j int
	na, _ := fmt.Sscanf(have, "%v for %d", &a, &i)
	nb, _ := fmt.Sscanf(want, "%v for %d", &b, &j)
	return have == want || na == 2 && nb == 2 && a == b && i <= j && i >= j-10
}

func ownRoutes(s State) string {
	var all []string
	for _, route := range s.Routes {
		if route.Proto == ownProto {
			all = append(all, route.where()+route.how())
		}
	}
	return strings.Join(all, ", ")
}
