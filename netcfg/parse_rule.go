package netcfg

// rule is one rule of policy routing. One without a family, a table or a
// priority means what networkd makes of it: IPv4, the main table, the kernel's
// choice.
func rule(v Value) (Rule, bool) {
	m := v.Mapping(ruleKeys)
	r := Rule{Table: mainTable, Priority: -1}
	from, to := m.Get("from"), m.Get("to")
	r.From, r.To = networkPrefix(from), networkPrefix(to)
	if m.Set() && !from.Set() && !to.Set() {
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
	r.TOS = m.Get("type-of-service").Int(0, 255)
	if from.Set() && !r.From.IsValid() || to.Set() && !r.To.IsValid() {
		return r, false
	}
	r.IPv6 = r.From.IsValid() && r.From.Addr().Is6() || r.To.IsValid() && r.To.Addr().Is6()
	if r.From.IsValid() && r.To.IsValid() && r.From.Addr().Is6() != r.To.Addr().Is6() {
		v.Invalid("%s and %s are of different families", r.From, r.To)
		return r, false
	}
	return r, true
}
