//go:build e2e && soak

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"reveille/images/bench"
	"reveille/images/rack"
)

// serialLines are the ways in which the far end of a serial line misbehaves.
// What do does, it does once the machine has its power.
var serialLines = []struct {
	name string
	pace bench.Pace
	do   func(ctx context.Context, p *bench.Port)
}{
	{"unlimited", bench.Unlimited(), nil},
	{"9600 baud", bench.Limited(960), nil},
	{"200 B/s", bench.Limited(200), nil},
	{"dead from the first byte", bench.StopsAfter(1), nil},
	{"dead after 2 KiB", bench.StopsAfter(2 << 10), nil},
	{"dead for 30 s", bench.StopsAfter(2 << 10), func(ctx context.Context, p *bench.Port) {
		after(ctx, 30*time.Second, p.Resume)
	}},
	{"XOFF", bench.Unlimited(), func(ctx context.Context, p *bench.Port) {
		after(ctx, 3*time.Second, func() { p.Write([]byte{0x13}) })
	}},
	{"random bytes", bench.Unlimited(), func(ctx context.Context, p *bench.Port) {
		noise := make([]byte, 64)
		for ctx.Err() == nil {
			for i := range noise {
				noise[i] = byte(rand.Uint32())
			}
			if _, err := p.Write(noise); err != nil {
				return
			}
			after(ctx, 50*time.Millisecond, func() {})
		}
	}},
}

func after(ctx context.Context, d time.Duration, do func()) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
		do()
	}
}

// slower is the most that a bad line may add to a boot. One boot on a shared
// machine varies by a third from run to run; `make bench` measures the ratio.
const slower = 2

// TestSerialLines boots on each line, quiet and with a child that floods its
// output, and wants the node to join as if the line were good, the line to
// show what is new, and the books to be kept.
func TestSerialLines(t *testing.T) {
	var good time.Duration
	for _, flood := range []string{"", "reveille.fault=flood@modules"} {
		for _, l := range serialLines {
			t.Run(fmt.Sprintf("%s, flood %t", l.name, flood != ""), func(t *testing.T) {
				took := onLine(t, l.pace, l.do, flood)
				t.Logf("joined after %s", took)
				if good == 0 {
					good = took
				}
				if took > slower*good {
					t.Errorf("joined after %s, on a good line after %s", took, good)
				}
			})
		}
	}
}

func onLine(t *testing.T, pace bench.Pace, do func(context.Context, *bench.Port), flood string) time.Duration {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{Name: "n1", TPM: true, Append: flood, Serial: []bench.Pace{pace}})
	if err := n.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	misbehaving, stop := context.WithCancel(ctx)
	defer stop()
	if do != nil {
		go do(misbehaving, n.Port(0))
	}
	v, err := r.WaitFor(ctx, "n1", rack.Joined(""))
	if err != nil {
		t.Fatal(err)
	}
	took := time.Since(n.PoweredOn())
	logIsComplete(t, ctx, n)
	if pace != bench.StopsAfter(2<<10) { // what a dead line held was flushed, but for errors
		notStale(t, n)
	}
	if v.AgentCrashes != 0 || len(v.Consoles) != 1 {
		t.Errorf("%d crashes, consoles %+v", v.AgentCrashes, v.Consoles)
	}
	if pace != bench.StopsAfter(1) && pace != bench.StopsAfter(2<<10) {
		see(t, ctx, n, 0, `steady        S n1 is a member`)
	} else if do != nil { // the line lives again: it shows where the node is now
		see(t, ctx, n, 0, `stage steady`)
	}
	return took
}

var stamped = regexp.MustCompile(`(?m)^\[ *([0-9]+\.[0-9]{3})\] `)

// notStale wants every line to be on the wire within 30 s of the time it bears.
// The guest's clock begins some seconds after the power: that is in our favour
// by less than the firmware takes.
func notStale(t *testing.T, n *rack.Node) {
	t.Helper()
	const newest, firmware = 30 * time.Second, 5 * time.Second
	var text []byte
	var ends []int // of each chunk in text
	chunks := n.Port(0).Chunks()
	for _, c := range chunks {
		text = append(text, c.Data...)
		ends = append(ends, len(text))
	}
	for _, m := range stamped.FindAllSubmatchIndex(text, -1) {
		at, err := strconv.ParseFloat(string(text[m[2]:m[3]]), 64)
		if err != nil {
			t.Fatal(err)
		}
		i, _ := slices.BinarySearch(ends, m[1])
		said := n.PoweredOn().Add(time.Duration(at * float64(time.Second)))
		if late := chunks[i].At.Sub(said); late > newest+firmware {
			t.Errorf("a line of %.1f s was shown %s after it", at, late)
			return
		}
	}
}
