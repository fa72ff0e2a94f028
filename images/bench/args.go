package bench

import (
	"fmt"
	"hash/crc32"
	"strconv"
	"strings"
)

const (
	hub          = 0 // the QEMU hub that all NICs and the user-mode stack are on
	hotplugSlots = 2 // PCIe ports kept free for AddNIC
	tpmState     = "tpm0"
	stateDrive   = "state"
)

func nicName(i int) string  { return fmt.Sprintf("nic%d", i) }
func portName(i int) string { return fmt.Sprintf("port%d", i) }
func slotName(i int) string { return fmt.Sprintf("slot%d", i) }
func lineName(i int) string { return fmt.Sprintf("serial%d", i) }
func uartName(i int) string { return fmt.Sprintf("uart%d", i) }
func uartSlot(i int) string { return fmt.Sprintf("uartslot%d", i) }

// MAC is the hardware address of NIC i, made from the node's name, under the
// prefix that QEMU uses.
func (n *Node) MAC(i int) string {
	sum := crc32.ChecksumIEEE([]byte(n.cfg.Name))
	return fmt.Sprintf("52:54:00:%02x:%02x:%02x", byte(sum>>8), byte(sum), byte(i))
}

// args are QEMU's. Where one differs from what a person would type:
//   - tcg, because /dev/kvm on a borrowed machine may exist and hang;
//   - RDRAND, without which the guest waits a minute for entropy; the rest of
//     cpu max (5-level page tables, AVX state) makes an emulated boot a second
//     longer;
//   - no_timer_check (in append), without which a kernel whose emulated processor
//     stands still for some ticks finds that it has no timer, says "MP-BIOS bug:
//     8254 timer not connected to IO-APIC" and hangs: one boot in a hundred or so
//     on a busy machine (timer_irq_works, arch/x86/kernel/apic/io_apic.c);
//   - cryptomgr.notests (likewise): the kernel's self-test of its ciphers hung in
//     the emulator before init began, once in some two hundred boots, and it is
//     the machine's to make, not ours;
//   - romfile= keeps the firmware from looking for a network boot, 1 s a NIC;
//   - no -no-reboot: a node that reboots comes back, as a machine does.
func (n *Node) args(fds fdTable) []string {
	cfg := n.cfg
	a := []string{
		"-name", cfg.Name, "-nodefaults", "-no-user-config", "-display", "none",
		"-M", "q35", "-accel", "tcg", "-cpu", "qemu64,+rdrand",
		"-m", strconv.Itoa(or(cfg.MemoryMiB, 512)), "-smp", strconv.Itoa(or(cfg.CPUs, 2)),
		"-kernel", cfg.Kernel, "-initrd", cfg.Initramfs, "-append", n.append(),
		"-chardev", fds.chardev("qmp"), "-mon", "chardev=qmp,mode=control",
	}
	a = append(a, n.serialArgs(fds)...)
	for i := range hotplugSlots {
		a = append(a, "-device", fmt.Sprintf("pcie-root-port,id=%s,chassis=%d,slot=%d", slotName(i), i+1, i+1))
	}
	a = append(a, n.networkArgs()...)
	if cfg.TPM {
		a = append(a, "-chardev", fds.chardev("tpm"),
			"-tpmdev", "emulator,id="+tpmState+",chardev=tpm", "-device", "tpm-crb,tpmdev="+tpmState)
	}
	if cfg.Disk {
		a = append(a, "-drive", "if=none,id="+stateDrive+",format=raw,readonly="+onOff(cfg.ReadOnly)+",file="+comma(n.DiskImage()),
			"-device", "virtio-blk-pci,drive="+stateDrive)
	}
	if cfg.NodeYAML != nil {
		a = append(a, "-fw_cfg", "name=opt/reveille/node.yaml,file="+comma(n.nodeYAML()))
	}
	if cfg.Display {
		a = append(a, "-vga", "std")
	}
	if cfg.UEFI {
		a = append(a, "-drive", "if=pflash,format=raw,unit=0,readonly=on,file="+ovmfCode,
			"-drive", "if=pflash,format=raw,unit=1,file="+comma(n.variables()))
	}
	if cfg.Watchdog {
		a = append(a, "-device", "i6300esb", "-action", "watchdog=reset")
	}
	return append(a, cfg.Args...)
}

// append is the kernel command line; what comes later in it wins.
func (n *Node) append() string {
	var words []string
	for i := range n.ports {
		words = append(words, fmt.Sprintf("console=ttyS%d", i))
	}
	words = append(words, "quiet", "panic=-1", "no_timer_check", "cryptomgr.notests", "rdinit=/init")
	if n.cfg.Append != "" {
		words = append(words, n.cfg.Append)
	}
	return strings.Join(words, " ")
}

func (n *Node) serialArgs(fds fdTable) (a []string) {
	for i := range n.ports {
		a = append(a, "-chardev", fds.chardev(lineName(i)))
		if !n.cfg.Cards {
			a = append(a, "-serial", "chardev:"+lineName(i))
			continue
		}
		slot := hotplugSlots + i + 1
		a = append(a, "-device", fmt.Sprintf("pcie-root-port,id=%s,chassis=%d,slot=%d", uartSlot(i), slot, slot),
			"-device", fmt.Sprintf("pci-serial,id=%s,chardev=%s,bus=%s", uartName(i), lineName(i), uartSlot(i)))
	}
	return a
}

func (n *Node) networkArgs() []string {
	if n.cfg.NICs == 0 {
		return nil
	}
	user := "user,id=user,net=" + NetworkIPv4 + ",host=" + HostIPv4 + ",ipv6-net=" + NetworkIPv6 + ",ipv6-host=" + HostIPv6
	for _, f := range n.cfg.Forward {
		user += ",hostfwd=tcp:" + f.Host + "-" + f.Guest
	}
	a := []string{"-netdev", user, "-netdev", fmt.Sprintf("hubport,id=uplink,hubid=%d,netdev=user", hub)}
	for i := range n.cfg.NICs {
		a = append(a, "-netdev", fmt.Sprintf("hubport,id=%s,hubid=%d", portName(i), hub),
			"-device", fmt.Sprintf("virtio-net-pci,id=%s,netdev=%s,mac=%s,romfile=", nicName(i), portName(i), n.MAC(i)))
	}
	return a
}

// comma doubles the commas of a value, QEMU's way to quote them.
func comma(s string) string { return strings.ReplaceAll(s, ",", ",,") }

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

func or(n, otherwise int) int {
	if n == 0 {
		return otherwise
	}
	return n
}
