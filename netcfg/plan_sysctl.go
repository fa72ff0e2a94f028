package netcfg

// globalSysctls come before all devices: a new one takes `default` as it is
// when it is made.
func (p *planner) globalSysctls() {
	for _, s := range p.want.sysctls {
		if s.link() == "" {
			p.setting(s, nil)
		}
	}
}

// linkSysctls come right after the MTU, which may reset them, and before the
// link is up.
func (p *planner) linkSysctls(d *LinkState) {
	for _, s := range p.want.sysctls {
		if s.link() == d.Name {
			p.setting(s, d)
		}
	}
}

// otherSysctls are those of interfaces that the document does not set up: a
// port of a bond, a device of somebody else, or none.
func (p *planner) otherSysctls() {
	for _, s := range p.want.sysctls {
		if name := s.link(); name == "" || p.settings[s.Key] {
			continue
		}
		if d := p.named(s.link()); d != nil {
			p.setting(s, d)
		} else if p.have.Sysctls != nil {
			p.settingWait(s, "no interface named "+s.link())
		}
	}
}

// setting plans the setting unless it is right. d is the interface it is of, nil
// for none.
func (p *planner) setting(s Sysctl, d *LinkState) {
	p.settings[s.Key] = true
	if p.have.Sysctls == nil {
		return
	}
	have, exists := p.have.Sysctls[s.Key]
	refused, isRefused := p.have.Refused[s.Key]
	conflict := p.want.conflict(s)
	switch {
	case conflict != "":
		p.settingWait(s, conflict)
	case exists && s.same(have):
	case isRefused:
		p.settingWait(s, refused)
	case !exists && (d == nil || p.observed(d)):
		// In a pass that changes something it may come to be: then the next
		// pass finds it, and nobody hears of this.
		p.settingWait(s, "the kernel has no such setting that can be read")
	default:
		p.do(Op{Verb: OpSysctl, Settings: []Setting{{s.Key, s.Value}}})
	}
}

// observed reports whether the kernel had the device under its name when it was
// asked for the settings below that name.
func (p *planner) observed(d *LinkState) bool {
	l := p.have.link(d.Index)
	return l != nil && l.Name == d.Name
}

func (p *planner) settingWait(s Sysctl, reason string) {
	w := wait{waitSetting, Wait{Link: settingsLink, Reason: s.Key + ": " + reason}}
	p.waits = append(p.waits, w)
}

// settingsLink stands where a Wait has its link.
const settingsLink = "kernel settings"
