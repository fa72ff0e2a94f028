package bench

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"time"
)

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
		line, err := fds.wire(lineName(i))
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

// dying is how long QEMU may take to end after it has hung up on us: it unmaps
// the guest's memory.
const dying = 5 * time.Second

// why adds how QEMU ended, if it did, to an error that this explains.
func (n *Node) why(err error) error {
	if n.monitor.hungUp() {
		select {
		case <-n.qemu.done:
		case <-time.After(dying):
		}
	}
	if n.running() {
		return err
	}
	return fmt.Errorf("%w: QEMU: %s", err, n.qemu.ended())
}

func (n *Node) running() bool {
	select {
	case <-n.qemu.done:
		return false
	default:
		return true
	}
}

// Off is closed while the machine is off: before the first PowerOn, by itself,
// by PowerCut, by a crash of QEMU. It belongs to the last PowerOn.
func (n *Node) Off() <-chan struct{} { return n.qemu.done }

// readOut is how long a serial port may go on reading what the node had sent
// when the power went: QEMU's end holds some 300 bytes.
const readOut = time.Second

// PowerCut takes the power away, from one instruction to the next. What the
// node has sent to its disk is kept, flushed or not. A node that is off stays off.
func (n *Node) PowerCut() error {
	var errs []error
	for _, p := range []*process{n.qemu, n.tpm} {
		if p != nil {
			errs = append(errs, p.kill())
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), readOut)
	defer cancel()
	for i, done := range n.reading {
		select {
		case <-done:
		case <-ctx.Done():
		}
		n.ports[i].hangUp()
		<-done
	}
	n.reading = nil
	n.monitor.close()
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
