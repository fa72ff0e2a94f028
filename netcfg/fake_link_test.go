package netcfg

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func (f *fake) create(op Op) error {
	l := LinkState{Name: op.Link, Kind: op.Kind, MTU: 1500, MAC: "06:00:00:00:00:00"}
	if op.Kind == "bridge" {
		l.Bridge = map[string]string{"stp_state": "0", "forward_delay": "1500", "hello_time": "200", "max_age": "2000", "ageing_time": "30000", "priority": "32768"}
	}
	if op.Kind == "vlan" {
		parent := f.state.named(op.Other)
		if parent == nil {
			return unix.ENODEV
		}
		l.VLAN, _ = strconv.Atoi(op.Settings[0].Value)
		l.Parent, l.MTU, l.MAC = parent.Index, parent.MTU, parent.MAC
		for _, o := range f.vlans(parent.Index) {
			if o.VLAN == l.VLAN {
				return unix.EEXIST
			}
		}
	}
	if op.Kind == "bond" {
		l.Bond = BondOptions{"primary": "", "arp_ip_target": "", "use_carrier": "1"}
		for i := range bondOptions {
			if o := &bondOptions[i]; o.def != unmanaged && o.name != "primary" {
				l.Bond[o.name] = o.def
			}
		}
	}
	for _, s := range op.Settings {
		switch {
		case s.Name == "mac":
			l.MAC = s.Value
		case op.Kind == "bridge":
			if err := f.bridgeOption(&l, s); err != nil {
				return err
			}
		case op.Kind == "bond":
			if err := f.bondOption(&l, s); err != nil {
				return err
			}
		}
	}
	return f.newLink(l)
}

// release is __bond_release_one: the port goes down and gets its MTU back.
// A bridge does neither (del_nbp).
func (f *fake) release(l *LinkState) {
	if m := f.state.link(l.Master); m != nil && m.Kind == "bridge" {
		l.Master, l.BridgePort = 0, nil
		return
	}
	if l.Master != 0 {
		f.down(l)
		f.mtu(l, f.before[l.Index])
		l.Master = 0
	}
}

func (f *fake) remove(index int) {
	for _, c := range f.ports(index) {
		f.release(c)
	}
	for on := f.vlans(index); len(on) > 0; on = f.vlans(index) { // the list moves
		f.remove(on[0].Index)
	}
	f.state.Links = slices.DeleteFunc(f.state.Links, func(l LinkState) bool { return l.Index == index })
	f.state.Addresses = slices.DeleteFunc(f.state.Addresses, func(a AddressState) bool { return a.Link == index })
	f.state.Routes = slices.DeleteFunc(f.state.Routes, func(r RouteState) bool { return r.Link == index })
}

func (f *fake) up(l *LinkState) error {
	if l.Kind == "vlan" && !f.state.link(l.Parent).Up {
		return unix.ENETDOWN
	}
	if l.Up {
		return nil
	}
	l.Up, l.IPv6MTU = true, l.MTU
	f.linkLocal(l)
	for _, v := range f.vlans(l.Index) {
		f.up(v)
	}
	return nil
}

// linkLocal is addrconf: an address of its own for a link that is no bond's
// port, beside those that another mode made.
func (f *fake) linkLocal(l *LinkState) {
	if !l.Up || l.Port != (PortState{}) || l.Master != 0 && l.BridgePort == nil || l.DisableIPv6 || l.NoIPv6 || l.AddrGenMode == genNone {
		return
	}
	ip := linkLocalOf(l.MAC)
	if l.AddrGenMode != genByMAC {
		ip = netip.MustParseAddr(fmt.Sprintf("fe80::%x:%x", l.AddrGenMode, l.Index))
	}
	a := AddressState{Link: l.Index, Prefix: netip.PrefixFrom(ip, 64), Proto: protoKernelLinkLocal, Tentative: !f.optimistic[l.Index]}
	if !slices.ContainsFunc(f.state.Addresses, func(h AddressState) bool { return h.Link == a.Link && h.Prefix == a.Prefix }) {
		f.state.Addresses = append(f.state.Addresses, a)
	}
}

func (f *fake) down(l *LinkState) {
	l.Up = false
	if !f.keeps[l.Index] {
		f.loseIPv6(l)
	}
	f.state.Routes = slices.DeleteFunc(f.state.Routes, func(r RouteState) bool { return r.Link == l.Index })
	for _, v := range f.vlans(l.Index) {
		f.down(v)
	}
}

// above reports whether l sits on m.
func (f *fake) above(l, m *LinkState) bool {
	if l.Index == m.Index {
		return true
	}
	if l.Kind == "vlan" && f.above(f.state.link(l.Parent), m) {
		return true
	}
	return slices.ContainsFunc(f.ports(l.Index), func(p *LinkState) bool { return f.above(p, m) })
}

func (f *fake) enslave(l *LinkState, name string) error {
	m := f.state.named(name)
	switch {
	case m == nil:
		return unix.ENODEV
	case l.Master == m.Index:
		return nil
	case m.Kind == "bridge":
		return f.addPort(l, m)
	case m.Kind != "bond" || l.Kind == "bond":
		return unix.EOPNOTSUPP
	case l.Up:
		return unix.EPERM
	case f.above(l, m):
		return unix.EBUSY // __netdev_upper_dev_link, "to prevent loops"
	}
	if len(f.ports(m.Index)) == 0 && m.MAC == "06:00:00:00:00:00" {
		m.MAC = l.MAC
	}
	f.before[l.Index] = l.MTU
	f.mtu(l, m.MTU)
	l.Master, l.Up = m.Index, true
	for _, v := range f.vlans(l.Index) {
		f.up(v)
	}
	return nil
}

func (f *fake) set(l *LinkState, op Op) error {
	s := op.Settings[0]
	switch {
	case op.Kind == "bridge port" && l.BridgePort == nil, op.Kind == "bond" && l.Kind != "bond", op.Kind == "bridge" && l.Kind != "bridge":
		return unix.EOPNOTSUPP
	case op.Kind == "bridge port":
		return f.portOption(l, s)
	case op.Kind == "bond":
		return f.bondOption(l, s)
	case op.Kind == "bridge":
		return f.bridgeOption(l, s)
	}
	n, _ := strconv.Atoi(s.Value)
	switch s.Name {
	case "mtu":
		return f.mtu(l, n)
	case "mac":
		if macBytes(s.Value) == nil {
			return unix.EINVAL
		}
		l.MAC = s.Value
		return nil
	case "accept_ra", "disable_ipv6", "addr_gen_mode", "use_tempaddr", "ipv6_mtu", "stable_secret", "token":
		if l.NoIPv6 {
			return unix.ENOENT
		}
		return f.sysctl(l, s, n)
	}
	return unix.EOPNOTSUPP
}

func (f *fake) sysctl(l *LinkState, s Setting, n int) error {
	switch s.Name {
	case "accept_ra":
		l.AcceptRA = n
	case "use_tempaddr":
		l.UseTempAddr = n
	case "ipv6_mtu":
		if n < 1280 || n > l.MTU {
			return unix.EINVAL
		}
		l.IPv6MTU = n
	case "disable_ipv6":
		was := l.DisableIPv6
		if l.DisableIPv6 = n != 0; l.DisableIPv6 {
			f.loseIPv6(l)
		} else if was {
			f.linkLocal(l)
		}
	case "addr_gen_mode":
		if n == genPrivacy && !f.secret[l.Index] {
			return unix.EINVAL
		}
		was := l.AddrGenMode
		if l.AddrGenMode = n; was != n {
			f.linkLocal(l)
		}
	case "stable_secret":
		f.secret[l.Index], l.AddrGenMode = true, genPrivacy
	case "token":
		if l.Kind == "dummy" || l.AcceptRA == acceptRAOff {
			return unix.EINVAL
		}
		token, err := netip.ParseAddr(s.Value)
		if err != nil {
			return unix.EINVAL
		}
		l.Token = token
	}
	return nil
}

func (f *fake) mtu(l *LinkState, n int) error {
	if l.Kind == "vlan" && n > f.state.link(l.Parent).MTU {
		return unix.ERANGE
	}
	l.MTU, l.IPv6MTU = n, n
	switch {
	case n < 1280 && !l.NoIPv6:
		l.NoIPv6, l.AcceptRA, l.DisableIPv6, l.AddrGenMode = true, 1, false, genByMAC
		l.UseTempAddr, l.Token = 0, netip.Addr{}
		delete(f.secret, l.Index)
		f.loseIPv6(l)
	case n >= 1280 && l.NoIPv6:
		l.NoIPv6 = false
		f.linkLocal(l)
	}
	if l.Kind == "bond" {
		for _, p := range f.ports(l.Index) {
			f.mtu(p, n)
		}
	}
	for _, v := range f.vlans(l.Index) {
		if v.MTU > n {
			f.mtu(v, n)
		}
	}
	return nil
}

// bondOption refuses as bond_opt_check_deps (bond_options.c) does, in its order.
func (f *fake) bondOption(l *LinkState, s Setting) error {
	o := bondOptionNamed(s.Name)
	hasPorts := l.Index != 0 && len(f.ports(l.Index)) > 0
	switch {
	case o.modes != "" && !slices.Contains(strings.Fields(o.modes), l.Bond["mode"]):
		return unix.EACCES
	case o.change == noPorts && hasPorts:
		return unix.ENOTEMPTY
	case (o.change == down || o.name == "mode") && l.Up:
		return unix.EBUSY
	}
	l.Bond[s.Name] = s.Value
	switch {
	case s.Name == "miimon" && s.Value != "0":
		l.Bond["arp_interval"], l.Bond["arp_validate"] = "0", "none"
	case s.Name == "arp_interval" && s.Value != "0":
		l.Bond["miimon"], l.Bond["updelay"], l.Bond["downdelay"] = "0", "0", "0"
	case s.Name == "mode" && slices.Contains([]string{"802.3ad", "balance-tlb", "balance-alb"}, s.Value):
		l.Bond["arp_interval"], l.Bond["arp_validate"] = "0", "none"
		if l.Bond["miimon"] == "0" {
			l.Bond["miimon"] = "100"
		}
	}
	return nil
}
