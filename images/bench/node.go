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
	"os"
	"path/filepath"
	"regexp"
	"time"
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
	tpm     *process // nil without a TPM
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
	n := &Node{cfg: cfg, dir: cfg.Dir, qemu: neverStarted(), monitor: neverConnected()}
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
	if _, err := os.Stat(n.variables()); n.cfg.UEFI && errors.Is(err, os.ErrNotExist) {
		if err := n.blankVariables(); err != nil {
			return err
		}
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

// SetReadOnly has the disk refuse writes from the next PowerOn on, or no more.
func (n *Node) SetReadOnly(ro bool) { n.cfg.ReadOnly = ro }

// ReplaceTPM puts another TPM in, with nothing in it. The node must be off.
func (n *Node) ReplaceTPM() error {
	if err := os.RemoveAll(n.tpmDir()); err != nil {
		return n.wrap("replace TPM", err)
	}
	if err := os.MkdirAll(n.tpmDir(), 0o700); err != nil {
		return n.wrap("replace TPM", err)
	}
	return nil
}

// Port is the far end of serial port i, ttyS<i> in the node.
func (n *Node) Port(i int) *Port { return n.ports[i] }

// PoweredOn is the host time of the last PowerOn.
func (n *Node) PoweredOn() time.Time { return n.on }

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
