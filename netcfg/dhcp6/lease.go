package dhcp6

import (
	"net/netip"
	"time"
)

// Lease is what a server granted. It is never changed once made. One without
// addresses is the answer to an information-request.
type Lease struct {
	Server     []byte     // its DUID
	From       netip.Addr // whence it answered: a link-local address
	Addresses  []Address
	DNS, NTP   []netip.Addr
	Search     []string
	Start      time.Duration // when the request was sent
	Renew      time.Duration // T1
	Rebind     time.Duration // T2
	Expire     time.Duration // of the last address; dhcp.Forever without any
	unassigned bool          // the server gave no address in an IA that was asked for
}

// Address is one address, and until when it is preferred and valid.
type Address struct {
	IP               netip.Addr
	Preferred, Valid time.Duration
}
