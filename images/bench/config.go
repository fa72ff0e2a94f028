package bench

// Config is a machine before it is built. Only Kernel and Initramfs are needed.
type Config struct {
	Name      string // in error messages; "node" if empty
	Kernel    string // bzImage
	Initramfs string
	Append    string // after the kernel command line of the bench

	// Dir keeps the disk and the TPM's state between two programs; empty means a
	// temporary one that Close removes.
	Dir string

	NICs     int       // virtio-net, all on one network: see Network
	Serial   []Pace    // one port for each; none means one unlimited
	Cards    bool      // the serial ports are cards that can be pulled, none is on the board
	Forward  []Forward // TCP ports of this machine that lead into the node
	TPM      bool      // a TPM 2.0 (swtpm)
	Disk     bool      // a state disk: FAT, labelled REVEILLE
	ReadOnly bool      // that disk refuses writes
	Files    map[string][]byte
	NodeYAML []byte // given as fw_cfg opt/reveille/node.yaml; nil gives none
	Display  bool   // a VGA without a window: see Screenshot
	Watchdog bool   // an i6300esb; the cloud kernel has no driver for it
	UEFI     bool   // OVMF instead of SeaBIOS; its variables outlive a power cut

	MemoryMiB int      // 512 if 0
	CPUs      int      // 2 if 0
	Args      []string // more arguments for QEMU
}

// Forward makes a TCP port of the node reachable from this machine.
type Forward struct {
	Host  string // address and port here, "127.0.0.1:7444"
	Guest string // address and port in the node, "10.0.2.15:7444"
}

// The network that all NICs are on, through a hub: QEMU's user-mode stack,
// which needs no privileges. The host's loopback is at HostIPv4 and HostIPv6.
// A hub repeats a frame to all other ports and speaks no LACP.
const (
	NetworkIPv4 = "10.0.2.0/24"
	HostIPv4    = "10.0.2.2"
	NetworkIPv6 = "fd00:5::/64"
	HostIPv6    = "fd00:5::2"
)
