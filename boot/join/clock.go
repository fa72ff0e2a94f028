package join

import "time"

// ClampTime is the time to set a clock to before it is synchronised: what the
// cluster says, or else the local clock, but never earlier than the build of
// this program and the last time that was sealed; both have passed. A zero
// time is one that is not known.
//
// A cluster's time may move a clock backwards, as far as that floor: a clock
// that runs years ahead breaks certificates as much as one that is behind.
func ClampTime(now, build, sealed, cluster time.Time) time.Time {
	t := cluster
	if t.IsZero() {
		t = now
	}
	for _, floor := range []time.Time{build, sealed} {
		if t.Before(floor) {
			t = floor
		}
	}
	return t
}
