package rack

import (
	"context"
	"math/rand/v2"
	"regexp"
	"time"

	"reveille/images/bench"
)

// SerialLine is a way in which a serial line serves, or does not.
type SerialLine struct {
	Name  string
	Pace  bench.Pace
	Words string // on the kernel command line
	Cards bool   // the port is a card, which can be pulled
	// Do is what happens to the line while the node boots and after, until it
	// returns or ctx ends; nil is nothing.
	Do func(ctx context.Context, n *Node) error

	Cut    bool // lines may end in the middle, and come later than they should
	Fails  bool // the kernel answers errors for a while
	Echoes bool // the kernel answers what is typed until init has the port
	Dead   bool // until somebody has the far end read again
}

// SerialLines are the lines that no node may be held up by; the first is good.
var SerialLines = []SerialLine{
	{Name: "unlimited", Words: "console=ttyS0,115200"},
	{Name: "9600 baud", Pace: bench.Limited(960)},
	{Name: "200 bytes a second", Pace: bench.Limited(200)},
	{Name: "dead from the first byte", Pace: bench.StopsAfter(1), Cut: true, Dead: true},
	{Name: "dead after 2 KiB", Pace: bench.StopsAfter(2 << 10), Cut: true, Dead: true},
	{Name: "dead for 30 s", Pace: bench.StopsAfter(2 << 10), Cut: true, Do: dieAndRevive},
	{Name: "EIO for 30 s", Cards: true, Cut: true, Fails: true, Do: pullAndPlug},
	{Name: "no UART", Words: "console=ttyS3"}, // the last is what the kernel would give init
	{Name: "XOFF", Do: func(ctx context.Context, n *Node) error {
		return typeOn(ctx, n, time.Second, func() []byte { return []byte{0x13} })
	}},
	{Name: "random bytes", Echoes: true, Do: func(ctx context.Context, n *Node) error {
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
func dieAndRevive(ctx context.Context, n *Node) error {
	for len(n.Port(0).Bytes()) < 2<<10 && ctx.Err() == nil {
		after(ctx, time.Second)
	}
	after(ctx, 30*time.Second)
	n.Port(0).Resume()
	return nil
}

// pullAndPlug pulls the card that the console is on, once it was seen to work:
// the kernel answers EIO then. It is back after half a minute.
func pullAndPlug(ctx context.Context, n *Node) error {
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
func typeOn(ctx context.Context, n *Node, every time.Duration, what func() []byte) error {
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
