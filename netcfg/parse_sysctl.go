package netcfg

// ReadSysctls reads a mapping from kernel settings to their values, in its
// order. One setting in two spellings is a problem, because the second would
// undo the first.
func ReadSysctls(v Value) []Sysctl {
	var out []Sysctl
	first := map[string]int{} // by path
	for _, e := range v.Names().Entries() {
		s := Sysctl{Key: e.Key, Value: e.Value.Scalar()}
		if !e.Value.isScalar() {
			continue // reported
		}
		if err := s.Check(); err != nil {
			e.Value.Invalid("is no kernel setting: %v", err)
			continue
		}
		if line, twice := first[s.path()]; twice {
			e.Value.Invalid("is given twice, first in line %d", line)
			continue
		}
		first[s.path()] = e.Value.Line()
		out = append(out, s)
	}
	return out
}

// CheckSysctls reports those that the document sets by a key of its own: two
// wishes for one value would never converge.
func (c *Config) CheckSysctls(v Value) {
	for _, e := range v.Names().Entries() {
		if why := c.conflict(Sysctl{Key: e.Key}); why != "" {
			e.Value.Invalid("%s", why)
		}
	}
}
