package netcfg

import (
	"context"
	"errors"
	"net/netip"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reveille/internal/synctest"
)

// grudge is a kernel that refuses operations.
type grudge struct {
	network
	refuse func(Op) error // nil for none
	done   []string
}

func (g *grudge) Apply(ctx context.Context, op Op) error {
	if err := g.refuse(op); err != nil {
		return err
	}
	g.done = append(g.done, op.String())
	return g.network.Apply(ctx, op)
}

// anything is a kernel that takes every operation.
type anything struct{ network }

func (anything) Apply(context.Context, Op) error { return nil }

// After a refusal goes on what would do the same without it.
func TestApplyAfterARefusal(t *testing.T) {
	gone := Op{Verb: OpDeleteAddress, Link: "eth1", Address: net4("10.0.0.1/24")}
	retired := Op{Verb: OpDeleteRule, Rule: Rule{Table: 9}, Retires: true}
	other := []Op{up("eth9"), addRule(Rule{Table: 8}), addr("eth9", "10.9.0.1/24")}
	for _, c := range []struct {
		name string
		ops  []Op // the first is refused
		err  error
		want []Op // of the others, but for those in other
	}{
		{"the link", []Op{set("eth1", "mtu", "9000"), up("eth1"), addr("eth1", "10.1.0.1/24")}, unix.EINVAL, nil},
		{"a device on it", []Op{set("eth1", "mtu", "9000"), mkVLAN("v1", "eth1", 1), up("v1")}, unix.EINVAL, nil},
		{"its master", []Op{set("bond0", "mode", "802.3ad"), enslave("eth1", "bond0"), up("eth1")}, unix.EINVAL, nil},
		{"a port", []Op{enslave("eth1", "bond0"), set("bond0", "primary", "eth0"), up("bond0")}, unix.EINVAL,
			[]Op{set("bond0", "primary", "eth0"), up("bond0")}},
		{"names in a circle", []Op{rename("eth1", "nic1"), rename("eth2", "eth1"), up("nic1"), addr("eth1", "10.1.0.1/24"), up("eth2")}, unix.EBUSY, nil},
		{"an address that moves", []Op{gone, addr("eth2", "10.0.0.1/24"), up("eth3")}, unix.EINVAL, []Op{up("eth3")}},
		{"what was", []Op{addRule(Rule{Table: 7}), retired}, unix.EINVAL, nil},
		{"no kernel", []Op{up("eth1")}, errNoKernel, nil},
	} {
		ops := append(append([]Op{}, c.ops...), other...)
		refused := c.ops[0].String()
		k := &grudge{network: anything{}, refuse: func(op Op) error {
			if op.String() == refused {
				return c.err
			}
			return nil
		}}
		failed, err := New(&Config{}, quiet(), Options{}).applyAll(bg, k, ops, &Report{})
		if failed != refused || !errors.Is(err, c.err) {
			t.Errorf("%s: %q, %v", c.name, failed, err)
		}
		want := append(append([]Op{}, c.want...), other...)
		if c.err == errNoKernel {
			want = nil
		}
		if got := strings.Join(k.done, "\n"); got != texts(want) {
			t.Errorf("%s: did\n%s\nwant\n%s", c.name, got, texts(want))
		}
	}
}

var errNoKernel = errors.New("no answer")

func texts(ops []Op) string {
	var out []string
	for _, op := range ops {
		out = append(out, op.String())
	}
	return strings.Join(out, "\n")
}

// A plan marks what removes an earlier document's things.
func TestPlanMarksWhatItRetires(t *testing.T) {
	f := newFake(t).(*fake)
	for _, err := range []error{f.AddNIC("eth0", "02:00:00:00:00:00"), f.Apply(bg, addRule(Rule{Table: 9, Priority: 7}))} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, op := range Plan(compileWish(t, `ethernets: {eth0: {addresses: [10.0.0.1/24]}}`), f.state) {
		if op.Retires != (op.Verb == OpDeleteRule) {
			t.Errorf("%s: retires %v", op, op.Retires)
		}
	}
}

// One driver refuses an MTU: the other links have their addresses, and a lease
// comes and goes on.
func TestRefusalStarvesNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newDHCPStage(t, `ethernets: {eth0: {dhcp4: true}, eth1: {mtu: 9000, addresses: [10.1.0.1/24]}, eth2: {addresses: [10.2.0.1/24]}}`, leaseStore{})
		k := &grudge{network: s, refuse: func(op Op) error {
			if op.Verb == OpSet && op.Link == "eth1" {
				return unix.EINVAL
			}
			return nil
		}}
		s.open = func() (network, error) { return k, nil }
		s.plug(t)
		for _, nic := range []string{"eth1", "eth2"} {
			if err := s.fake.AddNIC(nic, "02:00:00:00:00:0"+nic[3:]); err != nil {
				t.Fatal(err)
			}
		}
		s.server.silent = true // while the pauses between tries grow
		s.start(t)
		time.Sleep(10 * time.Minute)
		s.server.set(func() { s.server.silent = false })
		granted := time.Now()
		patience, stop := context.WithTimeout(t.Context(), time.Hour)
		defer stop()
		if err := s.WaitFor(patience, func(st Status) bool { return len(st.Addresses) == 2 }); err != nil {
			t.Fatal(err)
		}
		if waited := time.Since(granted); waited > 2*time.Minute {
			t.Errorf("no lease for %s", waited)
		}
		s.asked()
		for range 60 {
			time.Sleep(time.Minute)
			if st := s.Status(); len(st.Addresses) != 2 || st.Addresses[0] != netip.MustParseAddr("10.0.0.50") {
				t.Fatalf("%s after the lease: %v", time.Since(granted), st.Addresses)
			}
		}
		if st := s.Status(); st.Failed == "" || st.Converged || len(st.Links[1].Addresses) > 1 || st.Links[1].Addresses[0].State != "missing" {
			t.Errorf("status %+v", st)
		}
		if got := s.asked(); strings.Contains(got, "broadcast") || s.sockets() != 1 {
			t.Errorf("asked %s, on %d sockets", got, s.sockets())
		}
	})
}
