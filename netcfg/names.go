package netcfg

import (
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
)

// predictableNames are the names that udev would offer for a network card, in
// its order: onboard, slot, path, MAC (systemd.net-naming-scheme(7), v252; the
// reference is src/udev/udev-builtin-net_id.c). No udev runs on a node, and an
// operator has written a document for enp3s0. sys is /sys. mac is the burned-in
// address, "" for none. Cards on PCI and USB have such names, s390's and those
// of a device tree do not; none of the names is longer than the kernel takes.
func predictableNames(sys fs.FS, name, mac string) []string {
	class := path.Join("class/net", name)
	at, err := fs.ReadLink(sys, class)
	if err != nil {
		return nil // a virtual file system, or gone
	}
	n := nic{sys: sys, dir: path.Join("class/net", at)}
	prefix := n.prefix()
	if prefix == "" || n.read("ifindex") != n.read("iflink") { // stacked, as a vlan
		return nil
	}
	var out []string
	device := path.Dir(path.Dir(n.dir)) // above .../net/NAME
	suffix := ""
	if n.subsystem(device) == "usb" {
		suffix = usbPorts(path.Base(device))
	}
	if pci, ok := n.pciDevice(device); ok {
		if suffix == "" {
			out = append(out, prefixed(prefix+"o", n.onboard(pci), n.port())...)
		}
		out = append(out, prefixed(prefix, n.slot(pci), suffix)...)
		out = append(out, prefixed(prefix, n.path(pci), suffix)...)
	} else if suffix != "" {
		out = append(out, prefix+suffix)
	}
	if hex := strings.ReplaceAll(mac, ":", ""); len(hex) == 12 && prefix != "ib" && n.read("addr_assign_type") == "0" {
		out = append(out, prefix+"x"+hex)
	}
	return slices.DeleteFunc(out, func(s string) bool { return len(s) > maxName })
}

// maxName is IFNAMSIZ without its zero byte.
const maxName = 15

// prefixed is the name, or none when its middle is not known.
func prefixed(prefix, middle, suffix string) []string {
	if middle == "" {
		return nil
	}
	return []string{prefix + middle + suffix}
}

// nic is a network device's folder below /sys/devices.
type nic struct {
	sys fs.FS
	dir string
}

func (n nic) read(file string) string { return n.readAt(n.dir, file) }

func (n nic) readAt(dir, file string) string {
	text, err := fs.ReadFile(n.sys, path.Join(dir, file))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func (n nic) subsystem(dir string) string {
	at, err := fs.ReadLink(n.sys, path.Join(dir, "subsystem"))
	if err != nil {
		return ""
	}
	return path.Base(at)
}

// prefix is the kind of link (ARPHRD_*, include/uapi/linux/if_arp.h).
func (n nic) prefix() string {
	switch n.read("type") {
	case "1":
		uevent := n.read("uevent")
		switch {
		case strings.Contains(uevent, "DEVTYPE=wlan"):
			return "wl"
		case strings.Contains(uevent, "DEVTYPE=wwan"):
			return "ww"
		}
		return "en"
	case "32":
		return "ib"
	case "256":
		return "sl"
	}
	return ""
}

// port tells apart the ports of one device.
func (n nic) port() string {
	if name := n.read("phys_port_name"); name != "" {
		return "n" + name
	}
	if port, err := strconv.ParseUint(n.read("dev_port"), 10, 32); err == nil && port > 0 {
		return fmt.Sprintf("d%d", port)
	}
	return ""
}

// pciDevice is the nearest PCI device at or above dir; a virtio device or a USB
// controller's children lie below it.
func (n nic) pciDevice(dir string) (pciAddress, bool) {
	for ; strings.HasPrefix(dir, "devices/"); dir = path.Dir(dir) {
		if n.subsystem(dir) == "pci" {
			return n.pciAt(dir)
		}
	}
	return pciAddress{}, false
}

// usbPorts is the way through hubs of an interface such as 3-1.4:1.0: u1u4,
// with the configuration unless it is 1 and the interface unless it is 0.
func usbPorts(name string) string {
	_, rest, ok := strings.Cut(name, "-")
	ports, rest, ok2 := strings.Cut(rest, ":")
	config, iface, ok3 := strings.Cut(rest, ".")
	if !ok || !ok2 || !ok3 {
		return ""
	}
	out := "u" + strings.ReplaceAll(ports, ".", "u")
	if config != "1" {
		out += "c" + config
	}
	if iface != "0" {
		out += "i" + iface
	}
	return out
}
