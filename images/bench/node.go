// Package bench runs nodes in QEMU: several NICs, a TPM, a state disk, serial
// ports whose reader is fast, slow or dead, power cuts and hot-plug. Tests and
// `reveille vm run` use the same one.
//
// A Node is a machine in a rack: it has a power button, and what is plugged into
// it (serial readers, disk, TPM) stays while it is off.
package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"time"
)

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
	Forward  []Forward // TCP ports of this machine that lead into the node
	TPM      bool      // a TPM 2.0 (swtpm)
	Disk     bool      // a state disk: FAT, labelled REVEILLE
	Files    map[string][]byte
	NodeYAML []byte // given as fw_cfg opt/reveille/node.yaml; nil gives none
	Watchdog bool   // an i6300esb; the cloud kernel has no driver for it

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

// Node is a machine. Its methods are not safe for concurrent use, those of its
// ports are.
type Node struct {
	cfg   Config
	dir   string
	owned bool // dir is ours to remove
	ports []*Port

	nics    []string // QEMU's names of the NICs that are plugged in
	qemu    *process
	tpm     *process
	monitor *monitor
	on      time.Time
	reading []chan struct{} // closed when a port's reader has ended
}

// New builds a machine and leaves it off.
func New(cfg Config) (*Node, error) {
	if cfg.Name == "" {
		cfg.Name = "node"
	}
	if len(cfg.Serial) == 0 {
		cfg.Serial = []Pace{Unlimited()}
	}
	n := &Node{cfg: cfg, dir: cfg.Dir}
	if n.dir == "" {
		dir, err := os.MkdirTemp("", "reveille-vm-")
		if err != nil {
			return nil, n.wrap("build", err)
		}
		n.dir, n.owned = dir, true
	}
	if err := n.build(); err != nil {
		return nil, errors.Join(n.wrap("build", err), n.Close())
	}
	return n, nil
}

func (n *Node) build() error {
	if err := os.MkdirAll(n.tpmDir(), 0o700); err != nil {
		return err
	}
	for _, pace := range n.cfg.Serial {
		n.ports = append(n.ports, newPort(pace))
	}
	if _, err := os.Stat(n.DiskImage()); n.cfg.Disk && errors.Is(err, os.ErrNotExist) {
		return MakeDisk(n.DiskImage(), Label, n.cfg.Files)
	}
	return nil
}

// DiskImage is where the state disk is, for ReadDisk and WriteDisk.
func (n *Node) DiskImage() string { return filepath.Join(n.dir, "state.img") }

func (n *Node) tpmDir() string { return filepath.Join(n.dir, "tpm") }

func (n *Node) nodeYAML() string { return filepath.Join(n.dir, "node.yaml") }

// SetNodeYAML changes the node parameters for the next PowerOn.
func (n *Node) SetNodeYAML(b []byte) { n.cfg.NodeYAML = b }

// SetAppend changes the end of the kernel command line for the next PowerOn.
func (n *Node) SetAppend(s string) { n.cfg.Append = s }

// ReplaceTPM puts another TPM in, with nothing in it. The node must be off.
func (n *Node) ReplaceTPM() error {
	if err := os.RemoveAll(n.tpmDir()); err != nil {
		return n.wrap("replace TPM", err)
	}
	return os.MkdirAll(n.tpmDir(), 0o700)
}

// Port is the far end of serial port i, ttyS<i> in the node.
func (n *Node) Port(i int) *Port { return n.ports[i] }

// PoweredOn is the host time of the last PowerOn.
func (n *Node) PoweredOn() time.Time { return n.on }

// PowerOn starts the machine; the context bounds the start, not the run.
func (n *Node) PowerOn(ctx context.Context) error {
	if n.running() {
		return n.wrap("power on", errors.New("is on already"))
	}
	if err := n.PowerCut(); err != nil { // reaps what ended by itself
		return err
	}
	for _, p := range n.ports {
		p.Mark()
	}
	if err := n.powerOn(ctx); err != nil {
		err = n.wrap("power on", err)
		return errors.Join(err, n.PowerCut())
	}
	return nil
}

func (n *Node) powerOn(ctx context.Context) error {
	if n.cfg.NodeYAML != nil {
		if err := os.WriteFile(n.nodeYAML(), n.cfg.NodeYAML, 0o600); err != nil {
			return err
		}
	}
	var fds fdTable
	defer fds.close()
	if n.cfg.TPM {
		if err := n.startTPM(&fds); err != nil {
			return err
		}
	}
	control, err := fds.wire("qmp")
	if err != nil {
		return err
	}
	n.monitor = newMonitor(control)
	var lines []net.Conn
	for i := range n.ports {
		line, err := fds.wire(fmt.Sprintf("serial%d", i))
		if err != nil {
			return err
		}
		lines = append(lines, line)
	}
	n.nics = n.nics[:0]
	for i := range n.cfg.NICs {
		n.nics = append(n.nics, nicName(i))
	}
	n.on = time.Now()
	n.qemu, err = start("qemu-system-x86_64", n.args(fds), fds.take()...)
	if err != nil {
		for _, line := range lines {
			line.Close()
		}
		return err
	}
	n.serve(lines)
	if err := n.monitor.do(ctx, "qmp_capabilities", nil); err != nil {
		return n.why(err)
	}
	return nil
}

// serve starts the readers of this boot.
func (n *Node) serve(lines []net.Conn) {
	for i, p := range n.ports {
		done := make(chan struct{})
		n.reading = append(n.reading, done)
		p.attach(lines[i])
		go func() {
			defer close(done)
			p.serve(lines[i], n.qemu.done)
		}()
	}
}

// why adds how QEMU ended, if it did, to an error that this explains.
func (n *Node) why(err error) error {
	if n.running() {
		return err
	}
	return fmt.Errorf("%w: QEMU: %s", err, n.qemu.ended())
}

func (n *Node) running() bool {
	if n.qemu == nil {
		return false
	}
	select {
	case <-n.qemu.done:
		return false
	default:
		return true
	}
}

// Off is closed when the machine is off: by itself, by PowerCut or by a crash
// of QEMU. It belongs to the last PowerOn.
func (n *Node) Off() <-chan struct{} { return n.qemu.done }

// PowerCut takes the power away, from one instruction to the next. What the
// node has sent to its disk is kept, flushed or not. A node that is off stays off.
func (n *Node) PowerCut() error {
	var errs []error
	for _, p := range []*process{n.qemu, n.tpm} {
		if p != nil {
			errs = append(errs, p.kill())
		}
	}
	for i, done := range n.reading {
		n.ports[i].hangUp()
		<-done
	}
	n.reading = nil
	if n.monitor != nil {
		n.monitor.conn.Close()
	}
	if err := errors.Join(errs...); err != nil {
		return n.wrap("cut power", err)
	}
	return nil
}

// Close cuts the power and removes what New made.
func (n *Node) Close() error {
	err := n.PowerCut()
	if n.owned {
		err = errors.Join(err, os.RemoveAll(n.dir))
	}
	return err
}

// WaitSerial waits until the first serial port has shown a match since the
// power came on, and returns the match with its groups. It fails at once if the
// node is off.
func (n *Node) WaitSerial(ctx context.Context, re *regexp.Regexp) ([]string, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	if len(n.reading) == 0 {
		cancel(errors.New("the node is off"))
	} else {
		// A reader ends after the last byte that the node sent, or, if it is
		// stopped, with the node.
		go func(qemu *process, readerEnd <-chan struct{}) {
			select {
			case <-readerEnd:
				<-qemu.done
				cancel(fmt.Errorf("the node went off: QEMU: %s", qemu.ended()))
			case <-ctx.Done():
			}
		}(n.qemu, n.reading[0])
	}
	m, err := n.ports[0].Wait(ctx, re)
	if err != nil {
		return nil, n.wrap("serial", err)
	}
	return m, nil
}

func (n *Node) wrap(what string, err error) error {
	return fmt.Errorf("%s: %s: %w", n.cfg.Name, what, err)
}
