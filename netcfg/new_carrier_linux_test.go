package netcfg

import (
	"fmt"
	"slices"
	"testing"
)

// A carrier so new that the kernel has yet to act on it is no reason to have
// it make a link-local address: that comes by itself. Without Settling every
// third of these looks would ask for one.
func TestKernelNewCarrier(t *testing.T) {
	l := newKernelLab(t).(kernelLab)
	cfg := compileWish(t, `ethernets: {eth0: {}}`)
	does := func(ops ...Op) {
		t.Helper()
		for _, op := range ops {
			if err := l.Apply(bg, op); err != nil {
				t.Fatal(err)
			}
		}
	}
	look := func() State {
		t.Helper()
		have, err := l.Observe(bg)
		if err != nil {
			t.Fatal(err)
		}
		return have
	}
	for i := range 30 {
		if err := l.AddNIC("eth0", fmt.Sprintf("02:00:00:00:00:%02x", i)); err != nil {
			t.Fatal(err)
		}
		look() // Apply finds links by it
		does(downOp("peer-eth0"), up("eth0"), up("peer-eth0"))
		for range 5 {
			for _, op := range Plan(cfg, look()) {
				if slices.ContainsFunc(op.Settings, func(s Setting) bool { return s.Name == "addr_gen_mode" }) {
					t.Errorf("NIC %d: %s %s", i, op, op.Why)
				}
			}
		}
		does(Op{Verb: OpDelete, Link: "eth0"})
	}
}
