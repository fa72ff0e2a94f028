package images

import "fmt"

// Set is a choice of kernel modules; what they depend on comes along.
type Set struct {
	Must []string // names without which the image is not worth building
	May  []string // names that are taken if the kernel has them
	Dirs []string // directories below kernel/ taken whole
}

// ParseSet knows "qemu", "metal" and "none".
func ParseSet(name string) (Set, error) {
	switch name {
	case "qemu":
		return qemu(), nil
	case "metal":
		return metal(), nil
	case "none":
		return Set{}, nil
	}
	return Set{}, fmt.Errorf("module set %q: want qemu, metal or none", name)
}

// common is what every node uses, whatever it runs on: the state partition
// (vfat and the code pages it mounts with), the kinds of interface that netcfg
// makes, the roots of services with a payload, what common kernel settings ask for, a crash record in RAM or EFI
// variables, a software watchdog where the hardware has none.
func common() Set {
	return Set{
		Must: []string{
			"vfat", "nls_cp437", "nls_ascii", "nls_iso8859_1", "nls_utf8",
			"bonding", "8021q", "bridge", "dummy", "overlay",
		},
		May: []string{
			"button", "evdev", "ramoops", "efi_pstore", "softdog", "isofs", "veth",
			"tcp_bbr", "sch_fq", "br_netfilter",
			"tpm_tis", "tpm_crb", "crc32c_intel", "crct10dif_pclmul", "nvme",
		},
	}
}

// qemu is for virtual machines: virtio, and the devices that QEMU emulates for
// guests without it. Kept small, because every megabyte is read at each boot.
func qemu() Set {
	s := common()
	s.Must = append(s.Must, "virtio_pci", "virtio_net", "virtio_blk", "virtio_scsi", "sd_mod", "qemu_fw_cfg")
	s.May = append(s.May,
		"virtio_rng", "virtio_console", "ahci", "e1000", "e1000e",
		"i6300esb", "iTCO_wdt", "ipmi_si", "ipmi_devintf", "ipmi_watchdog")
	return s
}

// metal is for machines whose parts are not known beforehand: every network
// card, disk controller, TPM, BMC interface and watchdog that the kernel has.
// It wants a distribution's full kernel; a cloud kernel lacks most of these.
func metal() Set {
	s := qemu()
	s.Dirs = []string{
		"drivers/net/ethernet", "drivers/net/phy", "drivers/net/mdio", "drivers/net/pcs", "drivers/net/fjes",
		"drivers/nvme/host", "drivers/ata", "drivers/scsi", "drivers/message", "drivers/block", "drivers/md",
		"drivers/char/tpm", "drivers/char/ipmi", "drivers/char/hw_random", "drivers/watchdog",
		"drivers/usb/host", "drivers/usb/storage", "drivers/usb/core", "drivers/i2c/busses",
		"drivers/firmware", "drivers/virtio", "fs/fat", "fs/nls",
	}
	return s
}
