package netcfg

import (
	"strconv"
	"time"
)

// bridgeOption is one parameter of a bridge: netplan's name, the kernel's in
// /sys/class/net/*/bridge/, and the driver's default (br_stp_init,
// net/bridge/br_device.c). Times are in hundredths of a second there (USER_HZ).
type bridgeOption struct {
	key, name string
	lo, hi    int // in the kernel's unit
	time      bool
	def       string
}

// The ranges are the bridge's own (net/bridge/br_private_stp.h), which it
// checks even without STP but for the forward delay.
var bridgeOptions = []bridgeOption{
	{"ageing-time", "ageing_time", 0, 1<<31 - 1, true, "30000"},
	{"forward-delay", "forward_delay", 0, 3000, true, "1500"},
	{"hello-time", "hello_time", 100, 1000, true, "200"},
	{"max-age", "max_age", 600, 4000, true, "2000"},
	{"priority", "priority", 0, 65535, false, "32768"},
}

// legacyBridgeKeys are netplan's other spellings.
var legacyBridgeKeys = map[string]string{"aging-time": "ageing-time"}

// brportOptions are the parameters that a bridge gives its ports; 63 is the
// largest that fits beside the port's number.
var brportOptions = []bridgeOption{
	{key: "path-cost", name: "path_cost", lo: 1, hi: 65535},
	{key: "port-priority", name: "priority", lo: 0, hi: 63},
}

// brportFlags are keys of a link that matter only to the bridge it is a port of.
var brportFlags = []bridgeOption{
	{key: "hairpin", name: "hairpin_mode"},
	{key: "port-mac-learning", name: "learning"},
	{key: "neigh-suppress", name: "neigh_suppress"},
}

// leastForwardDelay is what STP needs, in hundredths of a second
// (BR_MIN_FORWARD_DELAY).
const leastForwardDelay = 200

func bridgeParameterKeys() Keys {
	k := Keys{Known: []string{"stp"}}
	for _, o := range append(bridgeOptions, brportOptions...) {
		k.Known = append(k.Known, o.key)
	}
	for legacy := range legacyBridgeKeys {
		k.Known = append(k.Known, legacy)
	}
	return k
}

// bridge reads a bridge. What the document does not say is the driver's
// default, so that a bridge left by somebody else is put right too.
func (c *compiler) bridge(l *link, m Mapping) {
	l.bridge.ports = c.ports(m.Get("interfaces"), maxBridgePorts)
	v := m.Get("parameters")
	params := v.Mapping(bridgeParameterKeys())
	// Netplan: STP is on by default, but a bridge without any parameter gets none.
	stp := boolOr(params.Get("stp"), v.Set())
	l.bridge.options = map[string]string{"stp_state": bit(stp)}
	for _, o := range bridgeOptions {
		l.bridge.options[o.name] = o.def
		if v := params.byAnyName(o.key, legacyBridgeKeys); v.Set() {
			l.bridge.options[o.name] = o.read(v)
		}
	}
	if d, _ := strconv.Atoi(l.bridge.options["forward_delay"]); stp && d < leastForwardDelay {
		params.Get("forward-delay").Unsupported("wants at least 2 s with stp")
	}
	for _, o := range brportOptions {
		for _, e := range params.Get(o.key).Names().Entries() {
			c.brport = append(c.brport, brportWish{e.Key, l.id, o.name, o.read(e.Value), e.Value})
		}
	}
}

func (o bridgeOption) read(v Value) string {
	if o.time {
		return interval(v, time.Second/100, time.Second, o.lo, o.hi)
	}
	return strconv.Itoa(v.Int(o.lo, o.hi))
}

func bit(on bool) string {
	if on {
		return "1"
	}
	return "0"
}

// brportWish is what a link shall be as a port of a bridge; bridge is "" when
// the link says so itself.
type brportWish struct {
	port, bridge string
	name, value  string
	at           Value
}

func (c *compiler) portKeys(l *link, m Mapping) {
	for _, o := range brportFlags {
		if v := m.Get(o.key); v.Set() {
			c.brport = append(c.brport, brportWish{l.id, "", o.name, bit(v.Bool()), v})
		}
	}
}

// bridgePorts gives the ports of bridges what is wished of them.
func (c *compiler) bridgePorts() {
	master := map[string]string{}
	for i := range c.cfg.links {
		for _, id := range c.cfg.links[i].bridge.ports {
			master[id] = c.cfg.links[i].id
		}
	}
	for _, w := range c.brport {
		bridge, isPort := master[w.port]
		switch {
		case !isPort:
			w.at.Unsupported("has no effect: %s is no port of a bridge", w.port)
		case w.bridge != "" && w.bridge != bridge:
			w.at.Invalid("%s is a port of %s", w.port, bridge)
		default:
			if l := c.cfg.find(w.port); l != nil {
				if l.brport == nil {
					l.brport = map[string]string{}
				}
				l.brport[w.name] = w.value
			}
		}
	}
}
