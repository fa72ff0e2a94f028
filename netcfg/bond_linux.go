package netcfg

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

func (k *kernel) bondOption(ae *attrs, s Setting) error {
	o := bondOptionNamed(s.Name)
	switch {
	case o == nil:
		return fmt.Errorf("no bond option %q", s.Name)
	case o.name == "arp_ip_target":
		ae.Nested(o.attr, func(in *attrs) error {
			for i, t := range strings.FieldsFunc(s.Value, func(r rune) bool { return r == ',' }) {
				a, err := netip.ParseAddr(t)
				if err != nil {
					return err
				}
				in.Bytes(uint16(i), a.AsSlice())
			}
			return nil
		})
		return nil
	case o.name == "primary":
		ae.Uint32(o.attr, uint32(k.index[s.Value])) // 0 clears it
		return nil
	}
	n, err := o.number(s.Value)
	if err != nil {
		return err
	}
	if o.size == 1 {
		ae.Uint8(o.attr, uint8(n))
	} else {
		ae.Uint32(o.attr, n)
	}
	return nil
}

const (
	bondStateActive = 0 // BOND_STATE_ACTIVE
	bondLinkUp      = 0 // BOND_LINK_UP
)

func decodeBondOption(o BondOptions, ad attribute) {
	for i := range bondOptions {
		opt := &bondOptions[i]
		if opt.attr != ad.Type {
			continue
		}
		switch {
		case opt.name == "arp_ip_target":
			var targets []string
			ad.nested(func(in attribute) {
				if a, ok := netip.AddrFromSlice(in.data); ok {
					targets = append(targets, a.String())
				}
			})
			o[opt.name] = strings.Join(targets, ",")
		case opt.name == "primary":
			o[opt.name] = strconv.Itoa(ad.number()) // an index, see nameBondPorts
		default:
			o[opt.name] = opt.word(uint32(ad.number()))
		}
	}
}

// nameBondPorts turns the index of a bond's primary into its name.
func nameBondPorts(links []LinkState) {
	for i := range links {
		primary, ok := links[i].Bond["primary"]
		if !ok {
			continue
		}
		links[i].Bond["primary"] = ""
		for _, l := range links {
			if strconv.Itoa(l.Index) == primary {
				links[i].Bond["primary"] = l.Name
			}
		}
	}
}

func decodePort(l *LinkState, ad attribute) {
	switch ad.Type {
	case unix.IFLA_BOND_SLAVE_STATE:
		l.Port.Active = ad.number() == bondStateActive
	case unix.IFLA_BOND_SLAVE_MII_STATUS:
		l.Port.MIIUp = ad.number() == bondLinkUp
	case unix.IFLA_BOND_SLAVE_PERM_HWADDR:
		l.PermMAC = macString(ad.data)
	case unix.IFLA_BOND_SLAVE_AD_AGGREGATOR_ID:
		l.Port.Aggregator = ad.number()
	case unix.IFLA_BOND_SLAVE_LINK_FAILURE_COUNT:
		l.Port.Failures = ad.number()
	case unix.IFLA_BOND_SLAVE_AD_ACTOR_OPER_PORT_STATE:
		l.Port.Actor = ad.number()
	case unix.IFLA_BOND_SLAVE_AD_PARTNER_OPER_PORT_STATE:
		l.Port.Partner = ad.number()
	}
}

func decodeLACP(l *LACPState, ad attribute) {
	if ad.Type != unix.IFLA_BOND_AD_INFO {
		return
	}
	ad.nested(func(in attribute) {
		switch in.Type {
		case unix.IFLA_BOND_AD_INFO_AGGREGATOR:
			l.Aggregator = in.number()
		case unix.IFLA_BOND_AD_INFO_NUM_PORTS:
			l.Ports = in.number()
		case unix.IFLA_BOND_AD_INFO_PARTNER_MAC:
			if mac := macString(in.data); mac != noMAC {
				l.Partner = mac
			}
		}
	})
}

// readBonding adds what the driver tells only in its file. A bond whose file
// cannot be read (it went meanwhile, or the driver was built without) is known
// less well, which is no reason to know nothing.
func readBonding(links []LinkState) {
	for i := range links {
		bond := &links[i]
		if bond.Kind != string(kindBond) || strings.Contains(bond.Name, "/") {
			continue
		}
		// Not /proc/net, which is the namespace of the process's first thread.
		text, err := os.ReadFile(filepath.Join("/proc/thread-self/net/bonding", bond.Name))
		if err != nil {
			continue
		}
		file := parseBonding(string(text))
		bond.LACP.Actor = file.actor
		for j := range links {
			port := &links[j]
			if told := file.ports[port.Name]; told != nil && port.Master == bond.Index {
				port.Port.PartnerMAC, port.Port.Churned = told.PartnerMAC, told.Churned
				port.Port.Speed, port.Port.HalfDuplex = told.Speed, told.HalfDuplex
			}
		}
	}
}
