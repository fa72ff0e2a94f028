package netcfg

import (
	"io/fs"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// sysfs is a /sys from lines of "path = content" and "path -> target".
func sysfs(lines string) fs.FS {
	sys := fstest.MapFS{}
	for line := range strings.Lines(lines) {
		line = strings.TrimSpace(line)
		if at, target, ok := strings.Cut(line, " -> "); ok {
			sys[at] = &fstest.MapFile{Data: []byte(target), Mode: fs.ModeSymlink}
		} else if at, text, ok := strings.Cut(line, " = "); ok {
			sys[at] = &fstest.MapFile{Data: []byte(strings.ReplaceAll(text, `\0`, "\x00") + "\n")}
		}
	}
	return sys
}

// card is the lines of an ethernet card called eth0 on the device.
func card(device string) string {
	up := strings.Repeat("../", 2)
	net := device + "/net/eth0"
	return "class/net/eth0 -> " + up + net + "\n" +
		net + "/type = 1\n" + net + "/ifindex = 2\n" + net + "/iflink = 2\n" + net + "/addr_assign_type = 0\n" + net + "/dev_port = 0\n"
}

// pci is the lines of the PCI device at the folder.
func pci(dir string) string { return dir + "/subsystem -> ../../../bus/pci\n" }

// manyFunctions is a PCI header that says so.
const manyFunctions = `/config = \0\0\0\0\0\0\0\0\0\0\0\0\0\0` + "\xff" + "\n"

func TestPredictableNames(t *testing.T) {
	const root = "devices/pci0000:00"
	const below = root + "/0000:00:1c.0/0000:03:00.0"
	for _, c := range []struct {
		name, sys, want string
	}{
		{"on the root bus", card(root+"/0000:00:03.0") + pci(root+"/0000:00:03.0"), "enp0s3 enx020000000001"},
		{"virtio", card(root+"/0000:00:03.0/virtio2") + pci(root+"/0000:00:03.0") +
			root + "/0000:00:03.0/virtio2/subsystem -> ../../../../bus/virtio\n", "enp0s3 enx020000000001"},
		{"behind a bridge", card(below) + pci(below) + pci(root+"/0000:00:1c.0"), "enp3s0 enx020000000001"},
		{"second function", card(root+"/0000:00:03.1") + pci(root+"/0000:00:03.1"), "enp0s3f1 enx020000000001"},
		{"first of several functions", card(below) + pci(below) + below + manyFunctions, "enp3s0f0 enx020000000001"},
		{"another domain", card("devices/pci0001:00/0001:02:00.0") + pci("devices/pci0001:00/0001:02:00.0"), "enP1p2s0 enx020000000001"},
		{"on the board", card(below) + pci(below) + below + "/acpi_index = 1\n", "eno1 enp3s0 enx020000000001"},
		{"on the board, by SMBIOS", card(below) + pci(below) + below + "/index = 2\n", "eno2 enp3s0 enx020000000001"},
		{"in a slot", card(below) + pci(below) + "bus/pci/slots/5/address = 0000:03:00\n", "ens5 enp3s0 enx020000000001"},
		{"a slot of something else", card(below) + pci(below) + "bus/pci/slots/5/address = 0000:04:00\nbus/pci/slots/5-1/address = 0000:03:00\n", "enp3s0 enx020000000001"},
		{"behind a bridge in a slot", card(below) + pci(below) + pci(root+"/0000:00:1c.0") + root + "/0000:00:1c.0/class = 0x060400\nbus/pci/slots/5/address = 0000:00:1c\n", "enp3s0 enx020000000001"},
		{"two functions behind a bridge in a slot", card(below) + pci(below) + below + manyFunctions + pci(root+"/0000:00:1c.0") +
			root + "/0000:00:1c.0/class = 0x060400\nbus/pci/slots/5/address = 0000:00:1c\n", "ens5f0 enp3s0f0 enx020000000001"},
		{"second port", card(below) + pci(below) + below + "/net/eth0/dev_port = 1\n", "enp3s0d1 enx020000000001"},
		{"named port", card(below) + pci(below) + below + "/net/eth0/phys_port_name = p0\n", "enp3s0np0 enx020000000001"},
		{"virtual function", card(root+"/0000:03:10.0") + pci(root+"/0000:03:10.0") +
			root + "/0000:03:10.0/physfn -> ../0000:03:00.1\n" + root + "/0000:03:00.1/virtfn0 -> ../0000:03:11.0\n" + root + "/0000:03:00.1/virtfn3 -> ../0000:03:10.0\n",
			"enp3s0f1v3 enx020000000001"},
		{"USB", card(root+"/0000:00:14.0/usb3/3-1/3-1.4/3-1.4:1.0") + pci(root+"/0000:00:14.0") +
			root + "/0000:00:14.0/usb3/3-1/3-1.4/3-1.4:1.0/subsystem -> ../../../../../../../bus/usb\n", "enp0s20u1u4 enx020000000001"},
		{"USB, another configuration and interface", card(root+"/0000:00:14.0/usb3/3-1/3-1:2.1") + pci(root+"/0000:00:14.0") +
			root + "/0000:00:14.0/usb3/3-1/3-1:2.1/subsystem -> ../../../../../../bus/usb\n", "enp0s20u1c2i1 enx020000000001"},
		{"a MAC that changes", strings.Replace(card(below), "addr_assign_type = 0", "addr_assign_type = 3", 1) + pci(below), "enp3s0"},
		{"stacked", strings.Replace(card(below), "iflink = 2", "iflink = 7", 1) + pci(below), ""},
		{"wireless", card(below) + pci(below) + below + "/net/eth0/uevent = DEVTYPE=wlan\n", "wlp3s0 wlx020000000001"},
		{"no hardware", card("devices/virtual"), "enx020000000001"},
		{"a tunnel", strings.Replace(card(below), "type = 1", "type = 768", 1) + pci(below), ""},
		{"gone", "", ""},
	} {
		got := strings.Join(predictableNames(sysfs(c.sys), "eth0", "02:00:00:00:00:01"), " ")
		if got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

// A document written for udev's names finds the card, gives it the name, and
// leaves the others as alternative names; the next plan is empty.
func TestPlanPredictableNames(t *testing.T) {
	for _, c := range []struct{ name, wish, want string }{
		{"by name", `ethernets: {enp3s0: {addresses: [10.9.0.1/24]}}`,
			"drop alternative name enp3s0 of eth0; rename eth0 to enp3s0; add alternative name eno1 to enp3s0; add alternative name enx020000000000 to enp3s0"},
		{"by glob", `ethernets: {lan: {match: {name: "eno*"}, addresses: [10.9.0.1/24]}}`,
			"add alternative name eno1 to eth0; add alternative name enx020000000000 to eth0"},
		{"the kernel's name", `ethernets: {eth0: {addresses: [10.9.0.1/24]}}`,
			"add alternative name eno1 to eth0; add alternative name enx020000000000 to eth0"},
		{"as a port", `bonds: {bond0: {interfaces: [eno1]}}`,
			"rename eth0 to eno1; add alternative name enx020000000000 to eno1"},
	} {
		f := newFake(t).(*fake)
		if err := f.AddNIC("eth0", "02:00:00:00:00:00"); err != nil {
			t.Fatal(err)
		}
		f.state.Links[0].Kind = ""
		f.state.Links[0].Predictable = []string{"eno1", "enp3s0", "enx020000000000"}
		f.state.Links[0].AltNames = []string{"enp3s0"}
		r := New(compileWish(t, c.wish), quiet(), Options{})
		var report, again Report
		if _, err := r.passes(t.Context(), f, &report); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		var names []string
		for _, op := range report.Ops {
			if slices.Contains([]Verb{OpAddAltName, OpDropAltName, OpRename}, op.Verb) {
				names = append(names, op.String())
			}
		}
		if got := strings.Join(names, "; "); got != c.want {
			t.Errorf("%s:\n%s, want\n%s", c.name, got, c.want)
		}
		if _, err := r.passes(t.Context(), f, &again); err != nil || again.Writes != 0 {
			t.Errorf("%s, again: %v, %v", c.name, again.Ops, err)
		}
	}
}
