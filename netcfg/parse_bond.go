package netcfg

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// legacyBondKeys are netplan's older names of the same parameters.
var legacyBondKeys = map[string]string{
	"all-slaves-active": "all-members-active",
	"packets-per-slave": "packets-per-member",
	"gratuitious-arp":   "gratuitous-arp",
}

// switchModes are netplan's modes of a bond that Open vSwitch makes.
var switchModes = []string{"balance-tcp", "balance-slb"}

// bondIntervals are the parameters that netplan reads as a time, with the unit
// of a bare number, which is also the kernel's.
var bondIntervals = map[string]time.Duration{
	"miimon":       time.Millisecond,
	"updelay":      time.Millisecond,
	"downdelay":    time.Millisecond,
	"arp_interval": time.Millisecond,
	"lp_interval":  time.Second,
}

func (c *compiler) bond(l *link, m Mapping) {
	l.bond.ports = c.ports(m.Get("interfaces"), maxBondPorts)
	params := m.Get("parameters").Mapping(bondParameterKeys())
	l.bond.options = BondOptions{"mode": "balance-rr"}
	for i := range bondOptions {
		o := &bondOptions[i]
		if v := params.byAnyName(o.key, legacyBondKeys); v.Set() {
			c.bondParameter(l, o, v)
		}
	}
	bondDefaults(l.bond.options)
	checkBond(l.bond.options, m.Get("parameters"))
}

func bondParameterKeys() Keys {
	var k Keys
	for _, o := range bondOptions {
		if o.key != "" {
			k.Known = append(k.Known, o.key)
		}
	}
	for legacy := range legacyBondKeys {
		k.Known = append(k.Known, legacy)
	}
	slices.Sort(k.Known)
	return k
}

// bondParameter reads one parameter. Options of another mode are refused,
// because the kernel refuses the whole bond for them. Mode is the table's first
// row, so it is known by then.
func (c *compiler) bondParameter(l *link, o *bondOption, v Value) {
	mode := l.bond.options["mode"]
	if o.modes != "" && !slices.Contains(strings.Fields(o.modes), mode) {
		v.Unsupported("is only for mode %s, this bond is %s", strings.ReplaceAll(o.modes, " ", ", "), mode)
		return
	}
	value := ""
	switch {
	case o.name == "primary":
		l.bond.primary = v.Scalar()
		return
	case o.name == "arp_ip_target":
		value = arpTargets(v)
	case o.name == "all_slaves_active":
		value = bit(v.Bool())
	case o.name == "mode" && slices.Contains(switchModes, v.Scalar()):
		v.Unsupported("%s, a mode of Open vSwitch, %s", v.Scalar(), unsupported)
		return
	case o.words != nil:
		if value = v.Enum(o.words...); !slices.Contains(o.words, value) {
			return
		}
	case bondIntervals[o.name] != 0:
		value = interval(v, bondIntervals[o.name], bondIntervals[o.name], o.lo, o.hi)
	default:
		value = strconv.Itoa(v.Int(o.lo, o.hi))
	}
	l.bond.options[o.name] = value
}

// arpTargets is the list as sysfs has it. The kernel keeps 16
// (BOND_MAX_ARP_TARGETS, include/net/bonding.h).
func arpTargets(v Value) string {
	var out []string
	for _, item := range v.Sequence() {
		a, err := netip.ParseAddr(item.Scalar())
		if err != nil || !a.Is4() || a.IsUnspecified() {
			item.Invalid("is no IPv4 address")
			continue
		}
		if out = appendNew(out, a.String()); len(out) > 16 {
			item.Invalid("is one too many: the kernel keeps at most 16")
			break
		}
	}
	return strings.Join(out, ",")
}

// bondDefaults sets what a bond must have to notice a dead port: without link
// monitoring a bond sends into a cable that was pulled. 100 ms is what every
// distribution documents; the driver forces it on the modes that need it
// (BOND_DEFAULT_MIIMON).
func bondDefaults(o BondOptions) {
	if !nonZero(o["arp_interval"]) && o["miimon"] == "" {
		o["miimon"] = "100"
	}
	if nonZero(o["miimon"]) {
		o["use_carrier"] = "1"
	}
}

func nonZero(s string) bool { return s != "" && s != "0" }

// checkBond refuses combinations that the driver would silently change, so
// that what is read back equals what was asked for.
func checkBond(o BondOptions, at Value) {
	mii, _ := strconv.Atoi(o["miimon"])
	for _, name := range []string{"updelay", "downdelay"} {
		d, _ := strconv.Atoi(o[name])
		switch opt := bondOptionNamed(name); {
		case d != 0 && mii == 0:
			at.Unsupported("%s needs mii-monitor-interval", opt.key)
		case d != 0 && d%mii != 0:
			at.Unsupported("%s %d is no multiple of mii-monitor-interval %d: the kernel would round it", opt.key, d, mii)
		}
	}
	needsMII := slices.Contains([]string{"802.3ad", "balance-tlb", "balance-alb"}, o["mode"])
	switch {
	case nonZero(o["arp_interval"]) && mii != 0:
		at.Unsupported("arp-interval and mii-monitor-interval exclude each other")
	case nonZero(o["arp_interval"]) && o["arp_ip_target"] == "":
		at.Unsupported("arp-interval needs arp-ip-targets")
	case needsMII && mii == 0:
		at.Unsupported("mode %s needs a mii-monitor-interval", o["mode"])
	case nonZero(o["fail_over_mac"]) && o["fail_over_mac"] != "none" && o["mode"] != "active-backup":
		at.Unsupported("fail-over-mac-policy %s is only for mode active-backup", o["fail_over_mac"])
	}
}
