package netcfg

import "net/netip"

// rule is one rule of policy routing. One without a family, a table or a
// priority means what networkd makes of it: IPv4, the main table, the kernel's
// choice.
func rule(v Value) (Rule, bool) {
	m := v.Mapping(ruleKeys)
	r := Rule{Table: mainTable, Priority: -1}
	from, to := m.Get("from"), m.Get("to")
	r.From, r.To = networkPrefix(from), networkPrefix(to)
	if v.isMapping() && !from.Set() && !to.Set() {
		v.Invalid("wants from or to")
	}
	if n := m.Get("table"); n.Set() {
		r.Table = n.Int(1, maxUint32)
	}
	if n := m.Get("priority"); n.Set() {
		r.Priority = n.Int(0, maxUint32)
	}
	if n := m.Get("mark"); n.Set() {
		r.Mark = n.Int(1, maxUint32)
	}
	tos := m.Get("type-of-service")
	if r.TOS = tos.Int(0, 255); r.TOS&3 != 0 {
		tos.Unsupported("has bits of congestion notification (ECN), by which Linux does not route")
	}
	if from.Set() && !r.From.IsValid() || to.Set() && !r.To.IsValid() {
		return r, false
	}
	r.IPv6 = r.From.IsValid() && r.From.Addr().Is6() || r.To.IsValid() && r.To.Addr().Is6()
	if r.From.IsValid() && r.To.IsValid() && r.From.Addr().Is6() != r.To.Addr().Is6() {
		v.Invalid("%s and %s are of different families", r.From, r.To)
		return r, false
	}
	r.From, r.To = unlessAny(r.From), unlessAny(r.To)
	return r, true
}

// unlessAny is the prefix, but invalid for one that holds every address: the
// kernel keeps no such condition.
func unlessAny(p netip.Prefix) netip.Prefix {
	if p.IsValid() && p.Bits() == 0 {
		return netip.Prefix{}
	}
	return p
}
