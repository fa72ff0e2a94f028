package rack

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"

	"reveille/boot/cluster/operator"
	"reveille/images/bench"
)

// Node is a machine of the rack.
type Node struct {
	*bench.Node
	Name  string
	rack  *Rack
	ports map[int]string
}

// Forwarded is where one of the node's Machine.Ports is on this machine.
func (n *Node) Forwarded(port int) string { return n.ports[port] }

// Machine says what to put into the rack.
type Machine struct {
	Name    string
	Serial  []bench.Pace
	Cards   bool // bench.Config.Cards
	TPM     bool
	Display bool   // a VGA, for Screenshot
	Append  string // end of the kernel command line
	Config  string // node.yaml; empty: NodeYAML with a new ticket
	Extra   string // more keys for that NodeYAML

	FullKernel bool // of `make image-full`, which has a driver for the watchdog
	Watchdog   bool // an i6300esb
	UEFI       bool // firmware that keeps variables
	NoDisk     bool // no state disk

	MemoryMiB int               // bench.Config.MemoryMiB
	Files     map[string][]byte // of the state disk

	Args  []string // more arguments for QEMU
	Ports []int    // of the node, that are reached at Node.Forwarded from this machine
}

// Address is the node's IPv4 address on its network; each node has a network
// of its own, so all have the same.
const Address = "10.0.2.15"

// AddNode puts a machine into the rack, off: two NICs, a state disk, and the
// port of its API forwarded from this machine.
func (r *Rack) AddNode(ctx context.Context, m Machine) (*Node, error) {
	api, err := FreePort()
	if err != nil {
		return nil, err
	}
	if m.Config == "" {
		ticket, err := r.Ticket(ctx)
		if err != nil {
			return nil, err
		}
		m.Config = r.NodeYAML(m.Name, ticket, api) + m.Extra
	}
	kernel, initramfs := "vmlinuz", "initramfs.cpio.zst"
	switch {
	case m.FullKernel:
		kernel, initramfs = "vmlinuz-full", "initramfs-full.cpio.zst"
	case r.options.Faults:
		initramfs = "initramfs-faults.cpio.zst"
	}
	forward := []bench.Forward{{Host: api, Guest: Address + ":7444"}}
	ports := map[int]string{}
	for _, port := range m.Ports {
		if ports[port], err = FreePort(); err != nil {
			return nil, err
		}
		forward = append(forward, bench.Forward{Host: ports[port], Guest: fmt.Sprintf("%s:%d", Address, port)})
	}
	machine, err := bench.New(bench.Config{
		Name:      m.Name,
		Kernel:    filepath.Join(r.options.Build, kernel),
		Initramfs: filepath.Join(r.options.Build, initramfs),
		Append:    m.Append,
		NICs:      2,
		Serial:    m.Serial,
		Cards:     m.Cards,
		TPM:       m.TPM,
		Display:   m.Display,
		Disk:      !m.NoDisk,
		Watchdog:  m.Watchdog,
		UEFI:      m.UEFI,
		NodeYAML:  []byte(m.Config),
		Forward:   forward,
		MemoryMiB: m.MemoryMiB,
		Files:     m.Files,
		Args:      m.Args,
	})
	if err != nil {
		return nil, err
	}
	n := &Node{Node: machine, Name: m.Name, rack: r, ports: ports}
	r.nodes = append(r.nodes, n)
	return n, nil
}

// NodeYAML is the node parameters of a machine of this rack: a bond of its two
// NICs with an address of each family.
func (r *Rack) NodeYAML(name, ticket, api string) string {
	return strings.TrimSpace(fmt.Sprintf(`
version: 1
name: %s
cluster:
  endpoints: ["%s"]
  ca: %s
  ticket: %s
api: {advertise: ["%s"]}
network:
  version: 2
  ethernets:
    eth0: {}
    eth1: {}
  bonds:
    bond0:
      interfaces: [eth0, eth1]
      parameters: {mode: active-backup}
      addresses: [%s/24, "fd00:5::15/64"]
`, name, r.Endpoint(), r.ca, ticket, api, Address)) + "\n"
}

// Joined tells whether the node is a member in another boot than the given.
func Joined(otherThan string) func(View) bool {
	return func(v View) bool { return v.State == "joined" && v.Stage == "steady" && v.BootID != otherThan }
}

// Boot powers the machine on and waits until it is a member.
func (n *Node) Boot(ctx context.Context, lastBoot string) (View, error) {
	if err := n.PowerOn(ctx); err != nil {
		return View{}, err
	}
	return n.rack.WaitFor(ctx, n.Name, Joined(lastBoot))
}

// Logs is the node's whole log, one line a record.
func (n *Node) Logs(ctx context.Context) (string, error) {
	out, err := n.rack.Operator(ctx, "node", "logs", n.Name)
	return string(out), err
}

// Records is the node's whole log.
func (n *Node) Records(ctx context.Context) (all []operator.Record, err error) {
	out, err := n.rack.Operator(ctx, "node", "logs", n.Name, "-o", "json")
	if err != nil {
		return nil, err
	}
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var r operator.Record
		if err := dec.Decode(&r); errors.Is(err, io.EOF) {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("read the log of %s: %w", n.Name, err)
		}
		all = append(all, r)
	}
}
