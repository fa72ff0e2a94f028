package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// Events returns what QEMU reported since the last PowerOn.
func (n *Node) Events() []Event {
	n.monitor.mu.Lock()
	defer n.monitor.mu.Unlock()
	return slices.Clone(n.monitor.events)
}

// Reboots counts how often the machine was reset since the last PowerOn, by its
// own doing (a reboot, a panic, a watchdog) or by Reset.
func (n *Node) Reboots() int { return resets(n.Events()) }

// firmwareAgain is within what a reset that follows another is not the node's.
// SeaBIOS finds what it left in memory before the reset, and asks for a harder
// one by all ways that it knows, of which QEMU may count two: 0.1 to 0.5 s
// after the first, but over a second on a machine that stands still meanwhile.
// A kernel needs longer than this to get as far as a reset.
const firmwareAgain = 2 * time.Second

func resets(events []Event) (count int) {
	var last time.Time
	for _, e := range events {
		if e.Name != "RESET" {
			continue
		}
		if e.At.Sub(last) > firmwareAgain {
			count++
		}
		last = e.At
	}
	return count
}

// WaitReboots waits until the machine was reset that often since PowerOn.
func (n *Node) WaitReboots(ctx context.Context, count int) error {
	err := n.monitor.await(ctx, func() bool { return resets(n.monitor.events) >= count })
	if err != nil {
		err = fmt.Errorf("%w\n%s", n.why(err), n.ports[0].tail())
		return n.wrap(fmt.Sprintf("wait for reboot %d", count), err)
	}
	return nil
}

// Reset presses the reset button.
func (n *Node) Reset(ctx context.Context) error {
	for _, p := range n.ports {
		p.Mark()
	}
	return n.command(ctx, "system_reset", nil)
}

// PressPower presses the power button: an ACPI event that the node may obey.
func (n *Node) PressPower(ctx context.Context) error {
	return n.command(ctx, "system_powerdown", nil)
}

// PressCtrlAltDel presses the three keys, which ask for an ordered reboot.
func (n *Node) PressCtrlAltDel(ctx context.Context) error {
	var keys []map[string]string
	for _, code := range []string{"ctrl", "alt", "delete"} {
		keys = append(keys, map[string]string{"type": "qcode", "data": code})
	}
	return n.command(ctx, "send-key", map[string]any{"keys": keys})
}

// PressNMI presses the button that interrupts whatever the kernel does. With
// unknown_nmi_panic on its command line it panics.
func (n *Node) PressNMI(ctx context.Context) error {
	return n.command(ctx, "inject-nmi", nil)
}

// ThrottleDisk has the state disk take so many bytes a second from now on; 1 is
// a disk that hangs, but for a first small write. 0 is no limit.
func (n *Node) ThrottleDisk(ctx context.Context, bytesPerSecond int) error {
	limits := map[string]any{"device": stateDrive, "bps": 0, "bps_rd": 0, "bps_wr": bytesPerSecond, "iops": 0, "iops_rd": 0, "iops_wr": 0}
	return n.command(ctx, "block_set_io_throttle", limits)
}

// SetLink plugs the cable of NIC i in or out.
func (n *Node) SetLink(ctx context.Context, i int, up bool) error {
	return n.command(ctx, "set_link", map[string]any{"name": nicName(i), "up": up})
}

// AddNIC plugs one more NIC into the running machine and returns its number. It
// stays until RemoveNIC or the next PowerOn.
func (n *Node) AddNIC(ctx context.Context) (int, error) {
	i := 0
	for slices.Contains(n.nics, nicName(i)) {
		i++
	}
	slot := i - n.cfg.NICs
	if slot < 0 || slot >= hotplugSlots {
		return 0, n.wrap("add NIC", fmt.Errorf("%d slots for hot-plug, all taken", hotplugSlots))
	}
	port := map[string]any{"type": "hubport", "id": portName(i), "hubid": hub}
	if err := n.command(ctx, "netdev_add", port); err != nil {
		return 0, err
	}
	nic := map[string]any{
		"driver": "virtio-net-pci", "id": nicName(i), "netdev": portName(i),
		"mac": n.MAC(i), "romfile": "", "bus": slotName(slot),
	}
	if err := n.command(ctx, "device_add", nic); err != nil {
		return 0, err
	}
	n.nics = append(n.nics, nicName(i))
	return i, nil
}

// RemoveNIC pulls a NIC that AddNIC plugged in, and waits until the node let go
// of it. The others sit on the main bus, which has no hot-plug.
func (n *Node) RemoveNIC(ctx context.Context, i int) error {
	if i < n.cfg.NICs || !slices.Contains(n.nics, nicName(i)) {
		return n.wrap("remove NIC", errors.New("not one that AddNIC plugged in"))
	}
	if err := n.unplug(ctx, nicName(i)); err != nil {
		return err
	}
	n.nics = slices.DeleteFunc(n.nics, func(s string) bool { return s == nicName(i) })
	return n.command(ctx, "netdev_del", map[string]any{"id": portName(i)})
}

// PullSerial pulls the card of serial port i (Config.Cards), and waits
// until the node let go of it.
func (n *Node) PullSerial(ctx context.Context, i int) error { return n.unplug(ctx, uartName(i)) }

// PlugSerial puts the card of serial port i back, on the same line.
func (n *Node) PlugSerial(ctx context.Context, i int) error {
	return n.command(ctx, "device_add", map[string]any{
		"driver": "pci-serial", "id": uartName(i), "chardev": lineName(i), "bus": uartSlot(i),
	})
}

// LoseInterrupt turns off the interrupts of the first UART on the board behind
// its driver's back. A driver that was sending then waits for one for ever.
func (n *Node) LoseInterrupt(ctx context.Context) error {
	const interruptEnable = 0x3f8 + 1 // UART_IER of ttyS0, include/uapi/linux/serial_reg.h
	return n.command(ctx, "human-monitor-command", map[string]any{"command-line": fmt.Sprintf("o /b %#x 0", interruptEnable)})
}

func (n *Node) unplug(ctx context.Context, device string) error {
	if !n.running() {
		return n.wrap("unplug "+device, errors.New("the node is off"))
	}
	if err := n.monitor.unplug(ctx, device); err != nil {
		return n.wrap("unplug "+device, n.why(err))
	}
	return nil
}

func (n *Node) command(ctx context.Context, name string, args map[string]any) error {
	if !n.running() {
		return n.wrap(name, errors.New("the node is off"))
	}
	if err := n.monitor.do(ctx, name, args); err != nil {
		return n.wrap(name, n.why(err))
	}
	return nil
}
