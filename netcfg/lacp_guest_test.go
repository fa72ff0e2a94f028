//go:build guest

package netcfg

import (
	"bufio"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// far makes the other machine what the document says.
func (n *namespace) far(t *testing.T, wish string) error {
	r := New(compileWish(t, wish), quiet(), Options{})
	done := make(chan error)
	n.run <- func() { _, err := r.Converge(bg); done <- err }
	return <-done
}

// cable makes two links between us and the other machine, whose ends are there.
func cable(t *testing.T, w *watched, other *namespace) error {
	for i, name := range []string{"eth0", "eth1"} {
		if err := w.lab.AddNIC(name, fmt.Sprintf("02:00:00:00:00:%02x", i)); err != nil {
			return err
		}
		w.lab.move(t, name, other)
	}
	return nil
}

const (
	noLACP   = `ethernets: {peer-eth0: {}, peer-eth1: {}}`
	farBond  = `bonds: {far: {interfaces: [peer-eth0, peer-eth1], macaddress: "02:00:00:00:00:aa", parameters: {mode: 802.3ad, lacp-rate: fast}}}`
	farBonds = `bonds:
  far: {interfaces: [peer-eth0], macaddress: "02:00:00:00:00:aa", parameters: {mode: 802.3ad, lacp-rate: fast}}
  far2: {interfaces: [peer-eth1], macaddress: "02:00:00:00:00:bb", parameters: {mode: 802.3ad, lacp-rate: fast}}`
)

func ourBond(rate string) string {
	return `bonds: {bond0: {interfaces: [eth0, eth1], parameters: {mode: 802.3ad, lacp-rate: ` + rate + `}, addresses: [10.9.0.1/24]}}`
}

// bondIs waits until the bond has the problem, "" for none, and so many ports
// in use; -1 for any number.
func (w *watched) bondIs(problem string, inUse int) error {
	err := w.WaitFor(w.ctx, func(s Status) bool {
		return s.Converged && len(s.Links) == 1 && s.Links[0].Problem == problem && (inUse < 0 || s.Links[0].inUse() == inUse)
	})
	if err != nil {
		return fmt.Errorf("wait for %q with %d ports in use: %w", problem, inUse, err)
	}
	return nil
}

func (w *watched) partnerIs(mac string) error {
	return w.WaitFor(w.ctx, func(s Status) bool { return len(s.Links) == 1 && s.Links[0].LACP.Partner == mac })
}

// lacpPartner tells each state of the other side by name: no LACP at all for
// so long, a partner, a dead port, two partners.
func lacpPartner(t *testing.T, rate string, late time.Duration) {
	other := newNamespace(t)
	watchFor(t, late+time.Minute, ourBond(rate), func(w *watched) error {
		return first(
			func() error { return cable(t, w, other) },
			func() error { return other.far(t, noLACP) },
			func() error {
				return w.bondIs("no port has an LACP partner: the other side does not do LACP", -1)
			},
			func() error { time.Sleep(late); return nil }, // a switch that boots
			func() error { return other.far(t, farBond) },
			func() error { return w.bondIs("", 2) },
			func() error { return w.partnerIs("02:00:00:00:00:aa") },
			func() error { other.do(t, downOp("peer-eth1")); return nil },
			func() error { return w.bondIs("eth1 has no carrier", 1) },
			func() error { return other.far(t, farBond) },
			func() error { return w.bondIs("", 2) },
			func() error { return other.far(t, farBonds) },
			func() error {
				return w.bondIs("eth0 and eth1 are in two aggregators: their partners are 02:00:00:00:00:aa and 02:00:00:00:00:bb, not one switch", 1)
			},
		)
	})
}

func TestLACPPartnerFast(t *testing.T) { lacpPartner(t, "fast", 0) }

// A TCP connection over a bond lives through another apply, an agent that
// starts again, a changed link monitor, and the loss of one of two ports.
func TestConnectionSurvives(t *testing.T) {
	other := newNamespace(t)
	wish := func(miimon int) string {
		return fmt.Sprintf(`bonds: {bond0: {interfaces: [eth0, eth1], parameters: {mode: active-backup, mii-monitor-interval: %d}, addresses: [10.9.0.1/24]}}`, miimon)
	}
	watchFor(t, time.Minute, wish(100), func(w *watched) error {
		var echo func() error
		return first(
			func() error { return cable(t, w, other) },
			func() error {
				return other.far(t, `bridges: {br: {interfaces: [peer-eth0, peer-eth1], parameters: {stp: false}, addresses: [10.9.0.2/24]}}`)
			},
			func() error { return w.bondIs("", 2) },
			func() (err error) { echo, err = connect(t, w, other); return err },
			func() error { return echo() },
			func() error { return w.restart(wish(100), Options{}) },
			func() error { return w.bondIs("", 2) },
			func() error { return echo() },
			func() error { return w.restart(wish(200), Options{}) },
			func() error { return w.until(1, "set bond0 miimon 200") },
			func() error { return echo() },
			func() error { other.do(t, downOp("peer-eth0")); return nil },
			func() error { return w.bondIs("eth0 has no carrier", 1) },
			func() error { return echo() },
			func() error {
				for _, op := range w.ops {
					if strings.Contains(op, "down") && strings.Contains(op, "bond0") {
						return fmt.Errorf("the bond was taken down: %s", op)
					}
				}
				return nil
			},
		)
	})
}

// connect opens a connection to the other machine; the result sends a line and
// reads it back.
func connect(t *testing.T, w *watched, other *namespace) (func() error, error) {
	listening := make(chan net.Listener)
	other.run <- func() {
		l, err := net.Listen("tcp4", "10.9.0.2:7")
		if err != nil {
			t.Error(err)
		}
		listening <- l
	}
	l := <-listening
	if l == nil {
		return nil, fmt.Errorf("listen: see above")
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for c, err := l.Accept(); err == nil; c, err = l.Accept() {
			for lines := bufio.NewScanner(c); lines.Scan(); {
				fmt.Fprintln(c, lines.Text())
			}
		}
	}()
	var c net.Conn
	if err := w.in(func() (err error) {
		c, err = net.DialTimeout("tcp4", "10.9.0.2:7", 10*time.Second)
		return err
	}); err != nil {
		return nil, err
	}
	t.Cleanup(func() { c.Close() })
	in := bufio.NewReader(c)
	return func() error {
		if err := c.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(c, "still here"); err != nil {
			return err
		}
		_, err := in.ReadString('\n')
		return err
	}, nil
}
