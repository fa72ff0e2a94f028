//go:build e2e && soak

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"reveille/images/bench"
	"reveille/images/rack"
)

// serialLine is one of rack.SerialLines under test.
type serialLine struct{ rack.SerialLine }

func after(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// TestSerialLines boots on each line, quiet and with a service that writes
// 50 MB to the console. The node joins, the line shows what is new, its books add
// up, an error in the flood is seen at once, and init neither waits nor works.
// That the node joins as if the line were good, `make bench` measures.
func TestSerialLines(t *testing.T) {
	for _, flood := range []bool{false, true} {
		for _, l := range rack.SerialLines {
			t.Run(fmt.Sprintf("%s, flood %t", l.Name, flood), func(t *testing.T) {
				t.Logf("joined after %s", serialLine{l}.boot(t, flood))
			})
		}
	}
}

// boot is one cell. A flooded node has a second line, a good one, that tells
// when its lines were said.
func (l serialLine) boot(t *testing.T, flood bool) time.Duration {
	r, ctx := newRack(t)
	start(t, ctx, r)
	m := rack.Machine{Name: "n1", TPM: true, Cards: l.Cards, Serial: []bench.Pace{l.Pace}, Append: "reveille.fault=watch@modules " + l.Words}
	if flood {
		m.Serial = append(m.Serial, bench.Unlimited())
		m.Append = "reveille.fault=watch@modules,flood50MB@modules,fatal@join reveille.show=svc/flood " + l.Words
	}
	n := add(t, ctx, r, m)
	if err := n.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		if l.Do == nil {
			done <- nil
			return
		}
		within, cancel := context.WithTimeout(ctx, bootTime)
		defer cancel()
		done <- l.Do(within, n)
	}()
	v, err := r.WaitFor(ctx, "n1", rack.Joined(""))
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(n.PoweredOn())
	if v.AgentCrashes != 0 || len(v.Consoles) != len(m.Serial) {
		t.Errorf("%d crashes, consoles %+v", v.AgentCrashes, v.Consoles)
	}
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	l.check(t, ctx, n, flood)
	if err := n.PowerCut(); err != nil {
		t.Error(err)
	}
	return took
}

func (l serialLine) check(t *testing.T, ctx context.Context, n *rack.Node, flood bool) {
	if flood {
		awaitFlood(t, ctx, n)
	}
	if l.Dead {
		if len(n.Port(0).Bytes()) > 2<<10 {
			t.Error("the line is not dead")
		}
		n.Port(0).Resume()
	}
	if l.Cut { // where the node is now, for who comes late
		see(t, ctx, n, 0, `stage steady|steady        S n1 is a member`)
	} else {
		see(t, ctx, n, 0, `steady        S n1 is a member`)
		notStale(t, n)
	}
	l.awaitBooks(t, ctx, n, 0, flood)
	if flood {
		l.awaitBooks(t, ctx, n, 1, flood)
		sawFatal(t, n, l.Cut)
	}
	atRest(t, ctx, n)
}

// TestLostInterrupt has a UART that lost an interrupt in the middle of its work:
// its driver waits for it, and the console must not.
func TestLostInterrupt(t *testing.T) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{Name: "n1", TPM: true, Serial: []bench.Pace{bench.Limited(960)},
		Append: "reveille.fault=flood50MB@modules reveille.show=svc/flood"})
	if err := n.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	see(t, ctx, n, 0, `flood line`)
	for range 20 { // between two lines there is nothing to wait for
		if err := n.LoseInterrupt(ctx); err != nil {
			t.Fatal(err)
		}
		after(ctx, 50*time.Millisecond)
	}
	see(t, ctx, n, 0, `-- ttyS0 took nothing for [1-9]s --`)
	see(t, ctx, n, 0, `steady        S n1 is a member`)
}

// TestLateConsole has a console on the command line whose driver is a module:
// it is not there when init looks for consoles, and comes with the modules.
func TestLateConsole(t *testing.T) {
	shown := filepath.Join(t.TempDir(), "hvc0")
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{Name: "n1", TPM: true, Append: "console=hvc0", Args: []string{
		"-chardev", "file,id=late,path=" + shown, "-device", "virtio-serial-pci,romfile=", "-device", "virtconsole,chardev=late"}})
	boot(t, ctx, n, "")
	see(t, ctx, n, 0, `consoles: hvc0 is there now`)
	for {
		text, err := os.ReadFile(shown)
		if err == nil && regexp.MustCompile(`mounts +S start[^$]+steady +S n1 is a member`).Match(text) {
			return
		}
		if after(ctx, time.Second); ctx.Err() != nil {
			t.Fatalf("hvc0 shows %q, %v", text, err)
		}
	}
}

var fatalLine = regexp.MustCompile(`fault         E fault: fatal`)

// sawFatal wants the error in the flood within 2 s, or, on a line that was dead
// then, at all.
func sawFatal(t *testing.T, n *rack.Node, cut bool) {
	const visible = 2 * time.Second
	said, ok := whenShown(n.Port(1), fatalLine)
	if !ok {
		t.Error("no error in the flood on the good line")
		return
	}
	shown, ok := whenShown(n.Port(0), fatalLine)
	if !ok {
		t.Error("no error in the flood")
		return
	}
	t.Logf("the error was shown %s after the good line had it", shown.Sub(said))
	if late := shown.Sub(said); late > visible && !cut {
		t.Errorf("the error was shown after %s", late)
	}
}

// whenShown is the host time of the first match.
func whenShown(p *bench.Port, re *regexp.Regexp) (time.Time, bool) {
	shown := newTimedText(p)
	m := re.FindIndex(shown.text)
	if m == nil {
		return time.Time{}, false
	}
	return shown.at(m[1]), true
}

var stamped = regexp.MustCompile(`(?m)^\[ *([0-9]+\.[0-9]{3})\] `)

// notStale wants every line to be on the wire within 30 s of the time it bears.
// The guest's clock begins some seconds after the power: that is in our favour
// by less than the firmware takes.
func notStale(t *testing.T, n *rack.Node) {
	t.Helper()
	const newest, firmware = 30 * time.Second, 5 * time.Second
	shown, worst := newTimedText(n.Port(0)), time.Duration(0)
	for _, m := range stamped.FindAllSubmatchIndex(shown.text, -1) {
		at, err := strconv.ParseFloat(string(shown.text[m[2]:m[3]]), 64)
		if err != nil {
			t.Fatal(err)
		}
		said := n.PoweredOn().Add(seconds(at))
		worst = max(worst, shown.at(m[1]).Sub(said))
	}
	t.Logf("a line was shown at most %s after the time it bears, firmware included", worst)
	if worst > newest+firmware {
		t.Error("that is too late")
	}
}

// timedText is what a port read, and when.
type timedText struct {
	text   []byte
	ends   []int // of each chunk in text
	chunks []bench.Chunk
}

func newTimedText(p *bench.Port) (shown timedText) {
	shown.chunks = p.Chunks()
	for _, c := range shown.chunks {
		shown.text = append(shown.text, c.Data...)
		shown.ends = append(shown.ends, len(shown.text))
	}
	return shown
}

// at is when the first end bytes had been read.
func (s timedText) at(end int) time.Time {
	i, _ := slices.BinarySearch(s.ends, end)
	return s.chunks[i].At
}
