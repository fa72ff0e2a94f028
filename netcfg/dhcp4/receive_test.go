package dhcp4

import (
	"encoding/binary"
	"math/rand/v2"
	"net"
	"reveille/netcfg/dhcp"
	"testing"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
)

// What is not for us changes nothing.
func TestForeignMessages(t *testing.T) {
	s := newScript(t, nil)
	s.up()
	discover := s.sent(dhcpv4.MessageTypeDiscover)
	change := func(change func(*dhcpv4.DHCPv4)) []byte {
		d, err := dhcpv4.FromBytes(answer(discover.Message, dhcpv4.MessageTypeOffer, server1, "10.0.0.50"))
		if err != nil {
			t.Fatal(err)
		}
		change(d)
		return d.ToBytes()
	}
	for name, b := range map[string][]byte{
		"other transaction": change(func(d *dhcpv4.DHCPv4) { d.TransactionID[0]++ }),
		"other machine":     change(func(d *dhcpv4.DHCPv4) { d.ClientHWAddr = net.HardwareAddr{2, 0, 0, 0, 0, 2} }),
		"other client id":   change(func(d *dhcpv4.DHCPv4) { d.UpdateOption(dhcpv4.OptClientIdentifier([]byte{1, 2})) }),
		"a request":         change(func(d *dhcpv4.DHCPv4) { d.OpCode = dhcpv4.OpcodeBootRequest }),
		"no server":         change(func(d *dhcpv4.DHCPv4) { d.DeleteOption(dhcpv4.OptionServerIdentifier) }),
		"no lease time":     change(func(d *dhcpv4.DHCPv4) { d.DeleteOption(dhcpv4.OptionIPAddressLeaseTime) }),
		"lease of a second": change(func(d *dhcpv4.DHCPv4) { d.UpdateOption(dhcpv4.OptIPAddressLeaseTime(time.Second)) }),
		"multicast address": change(func(d *dhcpv4.DHCPv4) { d.YourIPAddr = net.IPv4(224, 0, 0, 1) }),
		"no address":        change(func(d *dhcpv4.DHCPv4) { d.YourIPAddr = net.IPv4zero }),
		"holes in the mask": change(func(d *dhcpv4.DHCPv4) { d.UpdateOption(dhcpv4.OptSubnetMask(net.IPMask{255, 0, 255, 0})) }),
		"cut off":           answer(discover.Message, dhcpv4.MessageTypeOffer, server1, "10.0.0.50")[:250],
		"empty":             nil,
	} {
		if out := s.m.Receive(s.now, b); len(out) > 0 || s.m.state != Selecting {
			t.Errorf("%s: did %v, state %s", name, out, s.m.state)
		}
	}
	if got := s.m.Status().Dropped; got != 9 {
		t.Errorf("dropped %d", got)
	}
	echo := change(func(d *dhcpv4.DHCPv4) { d.UpdateOption(dhcpv4.OptClientIdentifier(ownID)) })
	s.out = s.m.Receive(s.now, echo)
	s.took(dhcpv4.MessageTypeRequest)
}

// 200 clients whose switch came up at once: they never speak as one.
func TestNoHerd(t *testing.T) {
	perSecond := map[time.Duration]int{}
	for i := range 200 {
		s := newScript(t, nil)
		s.m.rnd = rand.New(rand.NewPCG(uint64(i), 7))
		s.up()
		for start := s.now; s.now < start+10*time.Minute; {
			s.sent(dhcpv4.MessageTypeDiscover)
			perSecond[(s.now-start)/time.Second]++
		}
	}
	for from := 90 * time.Second; from < 10*time.Minute; from += time.Minute {
		sum, peak := 0, 0
		for sec := from / time.Second; sec < from/time.Second+60; sec++ {
			sum += perSecond[sec]
			peak = max(peak, perSecond[sec])
		}
		if mean := float64(sum) / 60; float64(peak) > 3*mean+3 {
			t.Errorf("minute from %s: %d in one second, %.1f on average", from, peak, mean)
		}
	}
}

// Whatever bytes arrive, in whatever state: no panic, and the timers go on.
func FuzzReceive(f *testing.F) {
	offer := answer(&dhcpv4.DHCPv4{HWType: 1, ClientHWAddr: ownMAC[:]}, dhcpv4.MessageTypeOffer, server1, "10.0.0.50",
		dhcpv4.OptRouter(netIP(server1)), dhcpv4.OptClasslessStaticRoute(&dhcpv4.Route{Dest: &net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}, Router: netIP(server2)}),
		dhcpv4.OptGeneric(dhcpv4.OptionDNSDomainSearchList, []byte("\x03foo\x07example\x00\x03bar\xc0\x04")))
	f.Add(offer, uint16(0))
	f.Add(answer(&dhcpv4.DHCPv4{HWType: 1, ClientHWAddr: ownMAC[:]}, dhcpv4.MessageTypeAck, server1, "10.0.0.50", dhcpv4.OptIPAddressLeaseTime(0xffffffff*time.Second), dhcpv4.OptRenewTimeValue(0xfffffffe*time.Second)), uint16(3))
	f.Add(answer(&dhcpv4.DHCPv4{HWType: 1, ClientHWAddr: ownMAC[:]}, dhcpv4.MessageTypeNak, server1, nobody), uint16(5))
	f.Add(offer[:241], uint16(2))
	f.Fuzz(func(t *testing.T, b []byte, steps uint16) {
		s := newScript(t, nil)
		s.up()
		for range 1 + steps%64 {
			if s.run(time.Hour); s.m.Next() == dhcp.Forever {
				break
			}
			own := append([]byte{}, b...)
			if len(own) > 8 {
				binary.BigEndian.PutUint32(own[4:], binary.BigEndian.Uint32(s.m.xid[:]))
			}
			s.m.Receive(s.now, own)
			if l := s.m.lease; l != nil && (l.Expire <= s.now || l.Renew > l.Rebind || l.Rebind > l.Expire || !l.Address.IsValid()) {
				t.Fatalf("lease %+v at %s", l, s.now)
			}
			if s.m.holds() != (s.m.lease != nil) {
				t.Fatalf("state %s with lease %v", s.m.state, s.m.lease)
			}
		}
	})
}

func FuzzFrames(f *testing.F) {
	f.Add(udpFrame(server1, server2, []byte("hello")))
	f.Add(arpFrame(ownMAC, server1, server2))
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _ = udpPayload(b)
		parseARP(b)
	})
}

// A fifth of all packets is lost, in both directions: a lease of 10 minutes
// comes in time, and in 200 days, some 57,000 renewals, hardly ever ends.
func TestPacketLoss(t *testing.T) {
	ended := 0
	for seed := range uint64(200) {
		s := newScript(t, nil)
		loss := rand.New(rand.NewPCG(seed, 3))
		s.m.rnd = rand.New(rand.NewPCG(seed, 4))
		lost := func() bool { return loss.IntN(5) == 0 }
		begin := s.now
		bound := time.Duration(0)
		for s.up(); s.now < begin+24*time.Hour; {
			if len(s.out) == 0 {
				s.run(time.Hour)
				continue
			}
			a := s.out[0]
			s.out = s.out[1:]
			if _, ok := a.(Announce); ok && bound == 0 {
				bound = s.now - begin
			} else if ok {
				ended++
			}
			send, ok := a.(Send)
			if !ok || lost() || lost() {
				continue
			}
			kind := dhcpv4.MessageTypeAck
			if send.Message.MessageType() == dhcpv4.MessageTypeDiscover {
				kind = dhcpv4.MessageTypeOffer
			}
			s.answer(send, kind, server1, "10.0.0.50")
		}
		if bound == 0 || bound > 2*time.Minute {
			t.Errorf("seed %d: bound after %s", seed, bound)
		}
	}
	if ended > 2 {
		t.Errorf("%d leases ended", ended)
	}
	t.Logf("%d leases ended", ended)
}
