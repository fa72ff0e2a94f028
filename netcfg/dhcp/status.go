package dhcp

import (
	"fmt"
	"math"
	"time"
)

// State is where a client is, in the words of its protocol's RFC.
type State string

// Off is a link without carrier.
const Off State = "off"

// Forever is the end of what has none (RFC 2131, section 3.3; RFC 8415,
// section 7.7).
const Forever = time.Duration(math.MaxInt64)

// Status is a client's state for a reader.
type Status[Lease any] struct {
	State   State
	Lease   *Lease        // in use; nil for none
	Attempt int           // messages sent since there is no lease
	Since   time.Duration // the carrier, or the loss of the lease
	Problem string        // why the last attempt failed; "" when nobody answered
	Dropped int           // messages that were malformed or of no use
}

// Waiting says why there is no lease, and the part of it that changes while
// the reason stays; "" when there is one or nobody asks.
func (s Status[Lease]) Waiting(now time.Duration) (reason, detail string) {
	if s.Lease != nil || s.State == Off {
		return "", ""
	}
	reason = "no answer"
	if s.Problem != "" {
		reason = s.Problem
	}
	return reason, fmt.Sprintf("attempt %d in %s", s.Attempt, (now - s.Since).Round(time.Second))
}
