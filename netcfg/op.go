package netcfg

import (
	"cmp"
	"fmt"
	"net/netip"
	"strings"
)

// Verb is what an Op does.
type Verb string

// The verbs. Each is one netlink request, one sysctl write or one file write,
// so a power cut or an error falls between operations and never inside one.
const (
	OpCreate         Verb = "create"
	OpDelete         Verb = "delete"
	OpRename         Verb = "rename"
	OpDropAltName    Verb = "drop alternative name"
	OpAddAltName     Verb = "add alternative name"
	OpUp             Verb = "up"
	OpDown           Verb = "down"
	OpEnslave        Verb = "enslave"
	OpRelease        Verb = "release"
	OpSet            Verb = "set"
	OpAddAddress     Verb = "add address"
	OpReplaceAddress Verb = "replace address"
	OpDeleteAddress  Verb = "delete address"
	OpAddRoute       Verb = "add route"
	OpReplaceRoute   Verb = "replace route"
	OpDeleteRoute    Verb = "delete route"
	OpAddRule        Verb = "add rule"
	OpDeleteRule     Verb = "delete rule"
	OpResolvConf     Verb = "write resolv.conf"
	OpSysctl         Verb = "set kernel setting"
	OpHosts          Verb = "write hosts"
)

// Setting is one attribute and its value in the words of the kernel's sysfs.
type Setting struct{ Name, Value string }

// Op is one step from reality to the wish. Applying it chooses nothing.
type Op struct {
	Verb     Verb
	Link     string    // the interface it acts on
	Other    string    // new name, master, parent or alternative name
	Kind     string    // create: the kind of device; set: of the option, "" for an attribute of any link
	Settings []Setting // create: the device's; set, kernel setting: exactly one
	Address  netip.Prefix
	Label    string // of an IPv4 address, "" for the link's name
	// Seconds that the address is still preferred and valid; Valid 0 is for ever.
	Preferred, Valid uint32
	Route            Route
	Rule             Rule
	Proto            int // route: its owner, so that nobody else's is deleted; 0 for ours in an addition, for any in a deletion
	File             string
	Retires          bool   // removes what an earlier document had, after all new is in place
	Why              string // for a person: what is there instead, or what needs it; "" when it is merely missing
}

// String is the operation as logs, plans and errors have it.
func (o Op) String() string {
	switch o.Verb {
	case OpCreate:
		return o.createString()
	case OpRename:
		return fmt.Sprintf("rename %s to %s", o.Link, o.Other)
	case OpAddAltName:
		return fmt.Sprintf("add alternative name %s to %s", o.Other, o.Link)
	case OpDropAltName:
		return fmt.Sprintf("drop alternative name %s of %s", o.Other, o.Link)
	case OpUp, OpDown:
		return fmt.Sprintf("bring %s %s", o.Link, o.Verb)
	case OpEnslave:
		return fmt.Sprintf("enslave %s to %s", o.Link, o.Other)
	case OpRelease:
		return fmt.Sprintf("release %s from %s", o.Link, o.Other)
	case OpSet:
		name := o.Settings[0].Name
		if o.Kind == string(kindBridgePort) {
			name = "port " + name
		}
		return fmt.Sprintf("set %s %s %s", o.Link, name, cmp.Or(o.Settings[0].Value, "none"))
	case OpAddAddress, OpReplaceAddress, OpDeleteAddress:
		return fmt.Sprintf("%s %s dev %s%s%s", o.Verb, o.Address, o.Link, o.label(), o.until())
	case OpAddRoute, OpReplaceRoute, OpDeleteRoute:
		return fmt.Sprintf("%s %s%s%s", o.Verb, o.Route.where(), o.on(), o.Route.how())
	case OpAddRule, OpDeleteRule:
		return fmt.Sprintf("%s %s", o.Verb, o.Rule)
	case OpSysctl:
		return fmt.Sprintf("%s %s = %s", o.Verb, o.Settings[0].Name, o.Settings[0].Value)
	case OpHosts:
		return fmt.Sprintf("write hosts: %d addresses", strings.Count(o.File, "\n")-strings.Count(localHosts, "\n"))
	case OpResolvConf:
		return fmt.Sprintf("write resolv.conf: %d name servers", strings.Count(o.File, "nameserver "))
	}
	return fmt.Sprintf("%s %s", o.Verb, o.Link)
}

func (o Op) createString() string {
	s := fmt.Sprintf("create %s %s", o.Kind, o.Link)
	if o.Other != "" {
		s += " on " + o.Other
	}
	for _, set := range o.Settings {
		s += fmt.Sprintf(" %s %s", set.Name, set.Value)
	}
	return s
}

// until tells no seconds: an operation that is refused twice in a row must look
// the same.
func (o Op) until() string {
	switch {
	case o.Valid == 0:
		return ""
	case o.Preferred == 0:
		return " deprecated"
	case o.Valid != infinity:
		return " leased"
	}
	return ""
}

func (o Op) on() string {
	if o.Link == "" {
		return ""
	}
	return " dev " + o.Link
}

func (o Op) label() string {
	if o.Label == "" {
		return ""
	}
	return " label " + o.Label
}

// String is the rule as `ip rule` writes it.
func (r Rule) String() string {
	from := "all"
	if r.From.IsValid() {
		from = r.From.String()
	}
	var s strings.Builder
	if r.IPv6 {
		s.WriteString("-6 ")
	}
	s.WriteString("from " + from)
	if r.To.IsValid() {
		fmt.Fprintf(&s, " to %s", r.To)
	}
	if r.Mark != 0 {
		fmt.Fprintf(&s, " fwmark %#x", r.Mark)
	}
	if r.TOS != 0 {
		fmt.Fprintf(&s, " tos %#x", r.TOS)
	}
	fmt.Fprintf(&s, " lookup %d", r.Table)
	if r.Priority >= 0 {
		fmt.Fprintf(&s, " priority %d", r.Priority)
	}
	return s.String()
}

func (r Route) where() string {
	to := r.To.String()
	if r.To.Bits() == 0 {
		to = "default"
		if r.To.Addr().Is6() {
			to = "default6"
		}
	}
	if r.Type != "" {
		to = r.Type + " " + to
	}
	if r.Via.IsValid() {
		to += " via " + r.Via.String()
	}
	return to
}

func (r Route) how() string {
	var s strings.Builder
	if r.From.IsValid() {
		fmt.Fprintf(&s, " src %s", r.From)
	}
	if r.Metric != 0 {
		fmt.Fprintf(&s, " metric %d", r.Metric)
	}
	if r.Table != mainTable {
		fmt.Fprintf(&s, " table %d", r.Table)
	}
	if r.OnLink {
		s.WriteString(" onlink")
	}
	for _, m := range r.metrics() {
		if m.value != 0 {
			fmt.Fprintf(&s, " %s %d", m.name, m.value)
		}
	}
	return s.String()
}
