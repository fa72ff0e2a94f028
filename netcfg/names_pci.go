package netcfg

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
)

// pciAddress is where on PCI a card sits.
type pciAddress struct {
	dir                   string // below /sys
	domain, bus, slot, fn uint
	many                  bool   // a device of several functions
	virtual               string // "v3" for virtual function 3 of the device at dir
}

// pciAt reads the folder's name, 0000:03:00.1. A virtual function is named
// after its physical one, because its own address depends on how many there are.
func (n nic) pciAt(dir string) (pciAddress, bool) {
	a := pciAddress{dir: dir}
	if physical, err := fs.ReadLink(n.sys, path.Join(dir, "physfn")); err == nil {
		base := path.Join(dir, physical)
		if a.virtual = n.virtualFunction(base, path.Base(dir)); a.virtual == "" {
			return a, false
		}
		a.dir = base
	}
	if _, err := fmt.Sscanf(path.Base(a.dir), "%x:%x:%x.%x", &a.domain, &a.bus, &a.slot, &a.fn); err != nil {
		return a, false
	}
	if n.readAt(a.dir, "ari_enabled") == "1" { // the slot's bits count functions
		a.fn, a.slot = a.fn+8*a.slot, 0
	}
	// PCI_HEADER_TYPE, whose top bit says that there are more functions.
	config, err := fs.ReadFile(n.sys, path.Join(a.dir, "config"))
	a.many = a.fn > 0 || err == nil && len(config) > 14 && config[14]&0x80 != 0
	return a, true
}

// virtualFunction finds which of the physical function's virtfnN is the device.
func (n nic) virtualFunction(physical, device string) string {
	entries, err := fs.ReadDir(n.sys, physical)
	if err != nil {
		return ""
	}
	for _, e := range entries {
		number, ok := strings.CutPrefix(e.Name(), "virtfn")
		at, err := fs.ReadLink(n.sys, path.Join(physical, e.Name()))
		if ok && err == nil && path.Base(at) == device {
			return "v" + number
		}
	}
	return ""
}

func (a pciAddress) domainWord() string {
	if a.domain == 0 {
		return ""
	}
	return fmt.Sprintf("P%d", a.domain)
}

func (n nic) functionWords(a pciAddress) string {
	out := ""
	if a.many {
		out = fmt.Sprintf("f%d", a.fn)
	}
	return out + n.port() + a.virtual
}

// onboard is the number that the firmware gave a card on the board (ACPI _DSM,
// or SMBIOS type 41).
func (n nic) onboard(a pciAddress) string {
	index := n.readAt(a.dir, "acpi_index")
	if index == "" {
		index = n.readAt(a.dir, "index")
	}
	number, err := strconv.ParseUint(index, 10, 16)
	if err != nil || a.virtual != "" {
		return ""
	}
	return fmt.Sprint(number)
}

// path is p3s0f1.
func (n nic) path(a pciAddress) string {
	return fmt.Sprintf("%sp%ds%d%s", a.domainWord(), a.bus, a.slot, n.functionWords(a))
}

// slot is the number printed at a hotplug slot, of the card or of what it sits
// behind. A slot that has a bridge is that of all behind it: only functions of
// one device can be told apart there.
func (n nic) slot(a pciAddress) string {
	slots, err := fs.ReadDir(n.sys, "bus/pci/slots")
	if err != nil {
		return ""
	}
	for dir := a.dir; n.subsystem(dir) == "pci"; dir = path.Dir(dir) {
		address, _, _ := strings.Cut(path.Base(dir), ".") // a slot has all functions
		for _, s := range slots {
			number, err := strconv.ParseUint(s.Name(), 10, 32)
			if err != nil || number == 0 || n.readAt(path.Join("bus/pci/slots", s.Name()), "address") != address {
				continue
			}
			const bridge = "0x0604" // PCI_CLASS_BRIDGE_PCI
			if strings.HasPrefix(n.readAt(dir, "class"), bridge) && !a.many {
				return ""
			}
			return fmt.Sprintf("%ss%d%s", a.domainWord(), number, n.functionWords(a))
		}
	}
	return ""
}
