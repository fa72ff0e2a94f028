package dhcp4

import (
	"net/netip"
	"time"
)

// Lease is what a server granted. It is never changed once made.
type Lease struct {
	Address  netip.Prefix
	Server   netip.Addr // option 54: who renews it, whatever siaddr says
	Routes   []Route
	DNS      []netip.Addr
	NTP      []netip.Addr
	Domain   string   // "" for none, like all that follows
	Search   []string // option 119
	Hostname string
	MTU      int // bytes

	// Since the machine's start; the lease counts from the request that was
	// granted, so that a slow answer makes it shorter and never longer.
	Start, Renew, Rebind, Expire time.Duration
}

// Route is a route of a lease.
type Route struct {
	To  netip.Prefix
	Via netip.Addr // invalid: the destination is on the link
	// OnLink says that no network of the lease has the gateway, so that it
	// must be taken to be on the link: a cloud's /32 leases are so.
	OnLink bool
}

// sameAddress reports whether both are of one address.
func (l *Lease) sameAddress(o *Lease) bool { return o != nil && l.Address.Addr() == o.Address.Addr() }
