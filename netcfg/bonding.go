package netcfg

import (
	"strconv"
	"strings"
)

// bondingFile is what the bonding driver tells in /proc/net/bonding/NAME and
// not by netlink.
type bondingFile struct {
	actor string // system MAC
	ports map[string]*PortState
}

const noMAC = "00:00:00:00:00:00"

// parseBonding reads the file as bond_info_show_master and bond_info_show_slave
// (drivers/net/bonding/bond_procfs.c) write it: "key: value" lines, the bond's
// first, then those of each port. Lines that it does not know say nothing.
func parseBonding(text string) bondingFile {
	f := bondingFile{ports: map[string]*PortState{}}
	var port *PortState
	partner := false // in "details partner lacp pdu"
	for line := range strings.Lines(text) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		value = strings.TrimSpace(value)
		switch key {
		case "Slave Interface":
			port, partner = &PortState{}, false
			f.ports[value] = port
			continue
		case "details actor lacp pdu":
			partner = false
		case "details partner lacp pdu":
			partner = true
		}
		switch {
		case port == nil && key == "System MAC address" && value != noMAC:
			f.actor = value
		case port == nil:
		case key == "system mac address" && partner && value != noMAC:
			port.PartnerMAC = value
		default:
			port.bondingLine(key, value)
		}
	}
	return f
}

func (p *PortState) bondingLine(key, value string) {
	switch key {
	case "Speed": // "10000 Mbps" or "Unknown"
		number, _, _ := strings.Cut(value, " ")
		if n, err := strconv.ParseUint(number, 10, 31); err == nil {
			p.Speed = int(n)
		}
	case "Duplex":
		p.HalfDuplex = value == "half"
	case "Actor Churn State", "Partner Churn State":
		p.Churned = p.Churned || value == "churned"
	}
}
