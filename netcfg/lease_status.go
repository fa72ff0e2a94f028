package netcfg

import (
	"cmp"
	"fmt"
	"net/netip"
	"time"

	"reveille/netcfg/dhcp"
)

// LeaseStatus is DHCP of one version on one interface.
type LeaseStatus struct {
	Link, Interface string // id in the document, name
	Version         int    // 4 or 6
	State           string // in the words of RFC 2131 or RFC 8415
	Server          string // "" without a lease, like all that follows
	Addresses       []netip.Prefix
	DNS, NTP        []netip.Addr
	Search          []string
	Hostname        string    // what the server calls the node: for information
	Renew, Expire   time.Time // by the clock of now; zero for never
	Waiting         string    // why there is no lease, "" when there is
	Attempts        int       // messages sent since there is no lease
	Dropped         int       // messages that were malformed or of no use
}

// String is the lease in one line: `DHCPv4 10.0.0.50/24 from 10.0.0.1 until
// 2026-01-02T15:04:05Z`, or why there is none.
func (s LeaseStatus) String() string {
	line := fmt.Sprintf("DHCPv%d ", s.Version)
	if s.Server == "" {
		return line + cmp.Or(s.Waiting, s.State)
	}
	for _, a := range s.Addresses {
		line += a.String() + " "
	}
	line += "from " + s.Server
	if s.Expire.IsZero() {
		return line + " for ever"
	}
	return line + " until " + s.Expire.UTC().Format(time.RFC3339)
}

// status is in the order of the document. It is called after follow.
func (k *keeper) status(now time.Time) []LeaseStatus {
	var out []LeaseStatus
	since := k.env.now()
	for _, t := range k.tenants {
		s := LeaseStatus{Link: t.link, Interface: t.name, Version: 4, State: t.state, Attempts: t.attempts, Dropped: t.dropped}
		if t.six {
			s.Version = 6
		}
		if w := t.waiting; w.reason != "" {
			s.Waiting = w.text()
		}
		if l := t.lease; l != nil {
			s.Server, s.DNS, s.Search, s.Hostname = l.server, l.dns, l.search, l.hostname
			if k.cfg.find(t.link).dhcp(t.six).useNTP {
				s.NTP = l.ntp
			}
			for _, a := range l.addresses {
				s.Addresses = append(s.Addresses, a.Prefix)
			}
			s.Renew, s.Expire = clock(now, l.renew, since), clock(now, l.expire, since)
		}
		out = append(out, s)
	}
	return out
}

// clock is a time since the machine's start by the wall clock.
func clock(now time.Time, at, since time.Duration) time.Time {
	if at == noEnd {
		return time.Time{}
	}
	return now.Add(at - since).Round(time.Second)
}

// statusOfClient is a client's status for the keeper; l is its lease.
func statusOfClient[Lease any](s dhcp.Status[Lease], l *lease, now time.Duration) clientStatus {
	out := clientStatus{lease: l, state: string(s.State), attempts: s.Attempt, dropped: s.Dropped}
	if s.Lease != nil {
		out.kept = s.Lease
	}
	out.waiting.reason, out.waiting.detail = s.Waiting(now)
	out.waiting.soon = out.waiting.reason != "" && s.Problem == "" && s.Attempt <= soonAttempts
	return out
}

// soonAttempts is how many messages may go unanswered before a wait is worth a
// line: a switch that just brought the port up drops the first two.
const soonAttempts = 3
