//go:build e2e && soak

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
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

// serialLine is a way in which a serial line serves, or does not.
type serialLine struct {
	name  string
	pace  bench.Pace
	words string // on the kernel command line
	cards bool   // the port is a card, which can be pulled
	// do is what happens to the line while the node boots and after, until it
	// returns or ctx ends.
	do func(ctx context.Context, n *rack.Node) error
	// cut: lines may end in the middle, and come later than they should.
	cut bool
	// fails: the kernel answers errors for a while.
	fails bool
	// echoes: the kernel answers what is typed until init has the port.
	echoes bool
	// dead until the test has the far end read again.
	dead bool
}

var serialLines = []serialLine{
	{name: "unlimited", words: " console=ttyS0,115200"},
	{name: "9600 baud", pace: bench.Limited(960)},
	{name: "200 B/s", pace: bench.Limited(200)},
	{name: "dead from the first byte", pace: bench.StopsAfter(1), cut: true, dead: true},
	{name: "dead after 2 KiB", pace: bench.StopsAfter(2 << 10), cut: true, dead: true},
	{name: "dead for 30 s", pace: bench.StopsAfter(2 << 10), cut: true, do: dieAndRevive},
	{name: "EIO for 30 s", cards: true, cut: true, fails: true, do: pullAndPlug},
	{name: "no UART", words: " console=ttyS3"}, // the last is what the kernel would give init
	{name: "XOFF", do: func(ctx context.Context, n *rack.Node) error {
		return typeOn(ctx, n, time.Second, func() []byte { return []byte{0x13} })
	}},
	{name: "random bytes", echoes: true, do: func(ctx context.Context, n *rack.Node) error {
		return typeOn(ctx, n, 50*time.Millisecond, func() []byte {
			noise := make([]byte, 64)
			for i := range noise {
				noise[i] = byte(rand.Uint32())
			}
			return noise
		})
	}},
}

// dieAndRevive has the far end read again half a minute after it stopped.
func dieAndRevive(ctx context.Context, n *rack.Node) error {
	for len(n.Port(0).Bytes()) < 2<<10 && ctx.Err() == nil {
		after(ctx, time.Second)
	}
	after(ctx, 30*time.Second)
	n.Port(0).Resume()
	return nil
}

// pullAndPlug pulls the card that the console is on, once it was seen to work:
// the kernel answers EIO then. It is back after half a minute.
func pullAndPlug(ctx context.Context, n *rack.Node) error {
	if _, err := n.Port(0).Wait(ctx, regexp.MustCompile(`parameters +S start`)); err != nil {
		return err
	}
	if err := n.PullSerial(ctx, 0); err != nil {
		return err
	}
	after(ctx, 30*time.Second)
	return n.PlugSerial(ctx, 0)
}

// typeOn types on the line for a minute.
func typeOn(ctx context.Context, n *rack.Node, every time.Duration, what func() []byte) error {
	for end := time.Now().Add(time.Minute); ctx.Err() == nil && time.Now().Before(end); {
		if _, err := n.Port(0).Write(what()); err != nil {
			return err
		}
		after(ctx, every)
	}
	return nil
}

func after(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// slower is the most that a bad line may add to a boot, of two if the first took
// longer: boots on a shared machine differ by more than that, but what else it
// has to do only adds. `make bench` measures the ratio.
const slower = 2

// TestSerialLines boots on each line, quiet and with a service that writes
// 50 MB to the console. The node joins as if the line were good, the line shows
// what is new, its books add up, an error in the flood is seen at once, and init
// neither waits nor works.
func TestSerialLines(t *testing.T) {
	for _, flood := range []bool{false, true} {
		var good time.Duration
		for _, l := range serialLines {
			t.Run(fmt.Sprintf("%s, flood %t", l.name, flood), func(t *testing.T) {
				took := l.boot(t, flood)
				t.Logf("joined after %s", took)
				if good == 0 {
					good = took
				}
				if took > slower*good {
					took = min(took, l.boot(t, flood))
				}
				if took > slower*good {
					t.Errorf("joined after %s, on a good line after %s", took, good)
				}
			})
		}
	}
}

// boot is one cell. A flooded node has a second line, a good one, that tells
// when its lines were said.
func (l serialLine) boot(t *testing.T, flood bool) time.Duration {
	r, ctx := newRack(t)
	start(t, ctx, r)
	m := rack.Machine{Name: "n1", TPM: true, Cards: l.cards, Serial: []bench.Pace{l.pace}, Append: "reveille.fault=watch@modules" + l.words}
	if flood {
		m.Serial = append(m.Serial, bench.Unlimited())
		m.Append = "reveille.fault=watch@modules,flood50MB@modules,fatal@join reveille.show=svc/flood" + l.words
	}
	n := add(t, ctx, r, m)
	if err := n.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() {
		if l.do == nil {
			done <- nil
			return
		}
		within, cancel := context.WithTimeout(ctx, bootTime)
		defer cancel()
		done <- l.do(within, n)
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
	if l.dead {
		if len(n.Port(0).Bytes()) > 2<<10 {
			t.Error("the line is not dead")
		}
		n.Port(0).Resume()
	}
	if l.cut { // where the node is now, for who comes late
		see(t, ctx, n, 0, `stage steady|steady        S n1 is a member`)
	} else {
		see(t, ctx, n, 0, `steady        S n1 is a member`)
		notStale(t, n)
	}
	l.awaitBooks(t, ctx, n, 0, flood)
	if flood {
		l.awaitBooks(t, ctx, n, 1, flood)
		sawFatal(t, n, l.cut)
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
