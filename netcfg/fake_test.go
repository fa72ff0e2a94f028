package netcfg

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"golang.org/x/sys/unix"
)

// fake is a kernel in memory that refuses what the real one refuses; the
// contract test holds the two together.
type fake struct {
	state  State
	before map[int]int  // the MTU that a port had before it was one
	secret map[int]bool // links with a stable_secret
	// unplugged takes the carrier from all NICs.
	unplugged bool
	// By link: without carrier, with optimistic_dad, with keep_addr_on_down.
	dark, optimistic, keeps map[int]bool
	last                    int // index given out last
	budget                  int // operations until it "loses power"; negative for never
	applied                 int
}

var errPower = fmt.Errorf("power cut")

func newFake(testing.TB) lab {
	return &fake{budget: -1, before: map[int]int{}, secret: map[int]bool{},
		dark: map[int]bool{}, optimistic: map[int]bool{}, keeps: map[int]bool{}}
}

func (f *fake) Close() error { return nil }

func (f *fake) events(testing.TB) <-chan struct{} { return nil }

func (f *fake) AddNIC(name, mac string) error {
	return f.newLink(LinkState{Name: name, Kind: "veth", MAC: mac, MTU: 1500})
}

func (f *fake) Observe(context.Context) (State, error) {
	s := f.state
	s.Links = slices.Clone(s.Links)
	for i := range s.Links {
		s.Links[i].Carrier = f.carrier(&s.Links[i])
		b := BondOptions{}
		for k, v := range s.Links[i].Bond {
			b[k] = v
		}
		s.Links[i].Bond = b
	}
	s.Addresses = slices.Clone(s.Addresses)
	s.Routes = slices.Clone(s.Routes)
	s.Rules = slices.Clone(s.Rules)
	disown(s.Routes)
	return s, nil
}

// disown is what fib6_add_rt2node makes of routes by gateways that have the same
// destination and metric: one of several next hops, of which nobody knows whose
// they are. Advertisements' are none of them (rt6_qualify_for_ecmp).
func disown(routes []RouteState) {
	joins := func(r RouteState) bool { return r.To.Addr().Is6() && r.Via.IsValid() && r.Proto != unix.RTPROT_RA }
	hops := map[routeKey]int{}
	for _, r := range routes {
		if joins(r) {
			hops[r.key()]++
		}
	}
	for i, r := range routes {
		if joins(r) && hops[r.key()] > 1 {
			routes[i].Proto = unix.RTPROT_UNSPEC
		}
	}
}

// wait lets the seconds pass that DAD takes on links with carrier.
func (f *fake) wait() {
	for i := range f.state.Addresses {
		a := &f.state.Addresses[i]
		if f.carrier(f.state.link(a.Link)) {
			a.Tentative = false
		}
	}
}

func (f *fake) Apply(_ context.Context, op Op) error {
	if f.budget == 0 {
		return errPower
	}
	f.budget--
	f.applied++
	if err := f.apply(op); err != nil {
		return fmt.Errorf("%s: %w", op, err)
	}
	return nil
}

func (f *fake) newLink(l LinkState) error {
	if f.taken(l.Name) {
		return unix.EEXIST
	}
	f.last++
	l.Index, l.AcceptRA, l.IPv6MTU = f.last, 1, l.MTU
	f.state.Links = append(f.state.Links, l)
	return nil
}

func (f *fake) taken(name string) bool {
	return slices.ContainsFunc(f.state.Links, func(l LinkState) bool {
		return l.Name == name || slices.Contains(l.AltNames, name)
	})
}

func (f *fake) ports(index int) (out []*LinkState) {
	for i := range f.state.Links {
		if f.state.Links[i].Master == index {
			out = append(out, &f.state.Links[i])
		}
	}
	return out
}

func (f *fake) vlans(index int) (out []*LinkState) {
	for i := range f.state.Links {
		if l := &f.state.Links[i]; l.Kind == "vlan" && l.Parent == index {
			out = append(out, l)
		}
	}
	return out
}

func (f *fake) carrier(l *LinkState) bool {
	switch {
	case !l.Up, f.dark[l.Index]:
		return false
	case l.Kind == "bond", l.Kind == "bridge":
		return slices.ContainsFunc(f.ports(l.Index), f.carrier)
	case l.Kind == "vlan":
		return f.carrier(f.state.link(l.Parent))
	}
	return !f.unplugged
}

func (f *fake) apply(op Op) error {
	if op.Verb == OpCreate {
		return f.create(op)
	}
	if op.Verb == OpAddRule || op.Verb == OpDeleteRule {
		return f.rule(op)
	}
	l := f.state.named(op.Link)
	if l == nil && op.Link != "" {
		return unix.ENODEV
	}
	switch op.Verb {
	case OpDelete:
		f.remove(l.Index)
	case OpRename:
		switch {
		case l.Up:
			return unix.EBUSY
		case f.taken(op.Other):
			return unix.EEXIST
		}
		l.Name = op.Other
	case OpAddAltName:
		if f.taken(op.Other) {
			return unix.EEXIST
		}
		l.AltNames = append(slices.Clone(l.AltNames), op.Other)
	case OpDropAltName:
		l.AltNames = slices.DeleteFunc(l.AltNames, func(s string) bool { return s == op.Other })
	case OpUp:
		return f.up(l)
	case OpDown:
		f.down(l)
	case OpEnslave:
		return f.enslave(l, op.Other)
	case OpRelease:
		f.release(l)
	case OpSet:
		return f.set(l, op)
	case OpAddAddress, OpReplaceAddress, OpDeleteAddress:
		return f.address(l, op)
	case OpAddRoute, OpReplaceRoute, OpDeleteRoute:
		return f.route(l, op)
	}
	return nil
}

func (f *fake) dropAddresses(l *LinkState) {
	f.state.Addresses = slices.DeleteFunc(f.state.Addresses, func(a AddressState) bool { return a.Link == l.Index })
}

func (f *fake) loseIPv6(l *LinkState) {
	f.state.Addresses = slices.DeleteFunc(f.state.Addresses, func(a AddressState) bool {
		return a.Link == l.Index && a.Prefix.Addr().Is6()
	})
	f.state.Routes = slices.DeleteFunc(f.state.Routes, func(r RouteState) bool {
		return r.Link == l.Index && r.To.Addr().Is6()
	})
}
