package boot

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"reveille/boot/join"
)

// trustedClock tells whether the local clock was set from a source that the
// cluster vouches for. Until then a certificate's dates prove nothing: a
// machine whose battery is empty boots in the year 2000.
type trustedClock struct{ set atomic.Bool }

// trustedTime is the local time, and whether a certificate may be judged by it.
func (n *Node) trustedTime() (now time.Time, known bool) {
	return time.Now(), n.clockSet.set.Load()
}

// clock moves the clock forward to the latest time that is certainly past: the
// build's. config does the same with the last time the cluster told, and join
// with the cluster's own.
func (n *Node) clock(context.Context) error {
	return n.notBefore(n.build.Time, "the build")
}

// notBefore sets the clock to at when it is behind that.
func (n *Node) notBefore(at time.Time, source string) error {
	behind := time.Until(at)
	if behind <= 0 {
		return nil
	}
	n.logger("clock").Warn(fmt.Sprintf("clock is %s behind %s, setting it to %s", distance(behind), source, at.UTC().Format(time.RFC3339)))
	return setClock(at)
}

// believable is how far the local clock may be from the cluster's before it is
// set: more than a slow answer explains, less than any certificate notices.
const believable = 5 * time.Second

// clusterTime takes the time over that a controller vouched for, zero if it
// did not. Earlier than the build or the stored time it is not believed.
func (n *Node) clusterTime(told time.Time) error {
	if told.IsZero() {
		return nil
	}
	at := join.ClampTime(time.Now(), n.build.Time, n.opened.lastTime(), told)
	off := time.Until(at)
	if off.Abs() < believable {
		n.clockSet.set.Store(true)
		return nil
	}
	n.logger("clock").Warn(fmt.Sprintf("clock is off by %s, setting it to the cluster's %s", distance(off), at.UTC().Format(time.RFC3339)))
	if err := setClock(at); err != nil {
		return err
	}
	n.clockSet.set.Store(true)
	return nil
}

// distance is how far a clock is off, in words: an empty battery makes years.
func distance(d time.Duration) string {
	const day = 24 * time.Hour
	if d.Abs() < 2*day {
		return d.Round(time.Second).String()
	}
	return fmt.Sprintf("%d days", d/day)
}

func setClock(at time.Time) error {
	ts := unix.NsecToTimespec(at.UnixNano())
	if err := unix.ClockSettime(unix.CLOCK_REALTIME, &ts); err != nil {
		return fmt.Errorf("set the clock: %w", err)
	}
	return nil
}
