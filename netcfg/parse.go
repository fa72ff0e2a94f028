package netcfg

import (
	"slices"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

// Parse compiles a netplan version 2 document, with or without its `network:`
// wrapper (cloud-init's network-config has none). The error is a Problems with
// everything wrong with it: what netplan would refuse as well is invalid; what
// it takes, but we cannot do or the kernel would not, is unsupported.
func Parse(file string, doc []byte) (*Config, error) {
	d := ReadDocument(file, doc)
	root := d.Root()
	if m := root.Names(); m.Get("network").Set() {
		root = root.Mapping(Keys{Known: []string{"network"}}).Get("network")
	}
	return compile(d, root)
}

// ParseNode compiles the value of `network:` inside another document.
func ParseNode(file string, n *yaml.Node) (*Config, error) {
	d := NodeDocument(file, n)
	root := d.Root()
	root.path = "network"
	return compile(d, root)
}

// The most of each that still works: the vlans of one link are 4,094, glibc
// reads 3 name servers and 256 bytes of search list, and no switch or kernel
// was tested with 64 ports in a bond; a bridge has at most 1,023 (BR_MAX_PORTS).
// Beyond, the checks would take quadratic time.
const (
	maxLinks       = 8192
	maxBondPorts   = 64
	maxBridgePorts = 1023
	maxServers     = 16
	maxSearch      = 32
)

// compiler turns a document into a Config; the maps remember the places that
// the checks of the whole document report.
type compiler struct {
	cfg       Config
	where     map[string]Value // of each link
	keys      map[string]Mapping
	refs      map[string]Value // where each id was first referred to
	addresses map[linkAddress]Value
	routes    map[routeKey]Value
	brport    []brportWish
	elsewhere map[string]bool // ids that sections we do not support define
	patched   bool            // Open vSwitch's ports may be referred to as well
}

func compile(d *Document, root Value) (*Config, error) {
	c := &compiler{
		where:     map[string]Value{},
		keys:      map[string]Mapping{},
		refs:      map[string]Value{},
		addresses: map[linkAddress]Value{},
		routes:    map[routeKey]Value{},
		elsewhere: map[string]bool{},
	}
	for _, section := range root.Names().Entries() {
		if slices.Contains(topKeys.NotYet, section.Key) {
			c.unread(section)
		}
	}
	top := root.Mapping(topKeys)
	if v := top.Get("version"); v.Set() {
		v.Int(2, 2)
	}
	renderer(top.Get("renderer"))

	ethernets := top.Get("ethernets")
	c.section(ethernets, kindNIC, ethernetKeys)
	c.section(top.Get("dummy-devices"), kindDummy, commonKeys)
	c.section(top.Get("bonds"), kindBond, bondKeys)
	c.section(top.Get("vlans"), kindVLAN, vlanKeys)
	c.section(top.Get("bridges"), kindBridge, bridgeKeys)
	if !ethernets.Set() {
		c.implyNICs()
	}
	c.checkReferences()
	c.checkNames()
	c.bridgePorts()
	c.order()
	if err := d.Err(); err != nil {
		return nil, err
	}
	return &c.cfg, nil
}

// unread remembers the ids of a section that is refused, so that what refers
// to them is not called wrong as well.
func (c *compiler) unread(section Entry) {
	if section.Key == "openvswitch" {
		c.patched = true
	} else if n := section.Value.Node(); n.Kind == yaml.MappingNode {
		for i := 0; i < len(n.Content); i += 2 {
			c.elsewhere[n.Content[i].Value] = true
		}
	}
}

// renderer accepts netplan's networkd, whose meaning of the keys is the one
// that we follow, and refuses NetworkManager's, and sriov, which is hardware.
func renderer(v Value) {
	switch v.Enum("networkd", "NetworkManager", "sriov") {
	case "NetworkManager", "sriov":
		v.Unsupported(unsupported)
	}
}

func (c *compiler) section(v Value, kind deviceKind, keys Keys) {
	for _, e := range v.Names().Entries() {
		if e.Key == "renderer" {
			renderer(e.Value) // for all of the section
			continue
		}
		m := e.Value.Mapping(keys)
		if first, dup := c.where[e.Key]; dup {
			e.Value.Invalid("is defined twice, first in line %d", first.Line())
			continue
		}
		if len(c.where) == maxLinks {
			e.Value.Unsupported("is one too many: at most %d interfaces", maxLinks)
			return
		}
		if strings.ContainsAny(e.Key, "*?[]") {
			e.Value.Invalid("is a pattern, and an id is none: use match")
		}
		c.where[e.Key], c.keys[e.Key] = e.Value, m
		l := link{id: e.Key, kind: kind, name: e.Key}
		c.common(&l, m)
		switch kind {
		case kindNIC:
			c.ethernet(&l, m)
		case kindBond:
			c.bond(&l, m)
		case kindBridge:
			c.bridge(&l, m)
		case kindVLAN:
			// 0 is a frame with a priority and no vlan (IEEE 802.1Q).
			l.vlan.id = m.Require("id").Int(0, 4094)
			l.vlan.parent = c.reference(m.Require("link"))
		}
		if l.name != "" && !validName(l.name) {
			e.Value.Invalid("is no interface name: 1 to 15 bytes without blanks, '/' and ':'")
		}
		c.cfg.links = append(c.cfg.links, l)
	}
}

// validName is dev_valid_name (net/core/dev.c); IFNAMSIZ is 16 with the NUL.
func validName(s string) bool {
	return s != "" && len(s) < 16 && s != "." && s != ".." &&
		!strings.ContainsFunc(s, func(r rune) bool {
			return r == '/' || r == ':' || unicode.IsSpace(r) || !unicode.IsPrint(r)
		})
}

// reference reads the id of another link.
func (c *compiler) reference(v Value) string {
	id := v.Scalar()
	if _, ok := c.refs[id]; !ok {
		c.refs[id] = v
	}
	return id
}

// ports reads a list of ids.
func (c *compiler) ports(v Value, most int) []string {
	var ids []string
	for _, item := range v.Sequence() {
		id := c.reference(item)
		if before := len(ids); id != "" {
			if ids = appendNew(ids, id); len(ids) == before {
				item.Invalid("names %s twice", id)
			}
		}
	}
	if len(ids) > most {
		v.Unsupported("names more than %d ports", most)
		return nil
	}
	return ids
}

func appendNew[T comparable](list []T, v T) []T {
	for _, have := range list {
		if have == v {
			return list
		}
	}
	return append(list, v)
}
