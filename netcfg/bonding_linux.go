package netcfg

import (
	"os"
	"path/filepath"
	"strings"

	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"
)

func decodeLACP(l *LACPState, ad *netlink.AttributeDecoder) {
	if ad.Type() != unix.IFLA_BOND_AD_INFO {
		return
	}
	nested(ad, func(in *netlink.AttributeDecoder) {
		switch in.Type() {
		case unix.IFLA_BOND_AD_INFO_AGGREGATOR:
			l.Aggregator = int(in.Uint16())
		case unix.IFLA_BOND_AD_INFO_NUM_PORTS:
			l.Ports = int(in.Uint16())
		case unix.IFLA_BOND_AD_INFO_PARTNER_MAC:
			if mac := macString(in.Bytes()); mac != noMAC {
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
