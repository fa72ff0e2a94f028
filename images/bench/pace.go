package bench

import "fmt"

// Pace is how fast the far end of a serial line reads: what a BMC's
// serial-over-LAN does to a node. The zero Pace is Unlimited.
type Pace struct {
	rate int // bytes per second; 0 is unlimited
	stop int // bytes until it reads no more; 0 is never
}

// Unlimited reads whatever comes.
func Unlimited() Pace { return Pace{} }

// Limited reads that many bytes a second.
func Limited(bytesPerSecond int) Pace { return Pace{rate: bytesPerSecond} }

// StopsAfter reads n bytes as they come, then keeps the line open and reads
// nothing more: a terminal server that hangs.
func StopsAfter(n int) Pace { return Pace{stop: max(n, 1)} }

func (p Pace) String() string {
	switch {
	case p.stop > 0:
		return fmt.Sprintf("stops after %d bytes", p.stop)
	case p.rate > 0:
		return fmt.Sprintf("%d B/s", p.rate)
	}
	return "unlimited"
}
