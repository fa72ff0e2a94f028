package dhcp6

import (
	"fmt"
	"time"
)

// Status is a client's state for a reader.
type Status struct {
	State   State
	Lease   *Lease        // in use; nil for none
	Attempt int           // messages sent since there is no lease
	Since   time.Duration // the carrier, or the loss of the lease
	Problem string        // why the last attempt failed; "" when nobody answered
	Dropped int           // messages that were malformed or of no use
}

// Status is the state now.
func (m *Machine) Status() Status {
	return Status{m.state, m.lease, m.attempt, m.since, m.problem, m.dropped}
}

// Waiting says why there is no lease, and the part of it that changes while
// the reason stays; "" when there is one or nobody asks.
func (s Status) Waiting(now time.Duration) (reason, detail string) {
	if s.Lease != nil || s.State == Off {
		return "", ""
	}
	reason = "no answer"
	if s.Problem != "" {
		reason = s.Problem
	}
	return reason, fmt.Sprintf("attempt %d in %s", s.Attempt, (now - s.Since).Round(time.Second))
}
