package dhcp6

import (
	"math/rand/v2"
	"net/netip"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"

	"reveille/netcfg/dhcp"
)

// Link is the socket of an interface, good while its carrier lasts.
type Link interface {
	// Send sends a message to all servers and relays.
	Send(message []byte) error
	// Receive calls the function until the link is closed.
	Receive(message func(message []byte, from netip.Addr))
	Close() error
}

// Client is a Machine with a socket and a timer. Its methods may be called at
// the same time.
type Client struct {
	*dhcp.Client[Link, *dhcpv6.Message, Lease]
	machine *Machine // under the client's lock
}

// NewClient makes a client that waits for Up. now is the time since the
// machine's start; changed is called, from any goroutine, after each change of
// the status, and must not wait for the client.
func NewClient(cfg Config, lease *Lease, now func() time.Duration, changed func(lease bool)) *Client {
	m := NewMachine(cfg, lease, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	send := func(link Link, d *dhcpv6.Message) error { return link.Send(d.ToBytes()) }
	return &Client{dhcp.NewClient(m, now, changed, send), m}
}

// Up begins on a link that has carrier and a link-local address that is
// checked; the client closes the link. resumed says that it has had them ever
// since the lease that the client was made with was in use; stateless that its
// routers give no addresses.
func (c *Client) Up(link Link, resumed, stateless bool) {
	start := c.machine.Up
	if resumed {
		start = c.machine.Resume
	}
	c.Client.Up(link,
		func(now time.Duration) []*dhcpv6.Message { return start(now, stateless) },
		func(heard func(func(time.Duration) []*dhcpv6.Message)) {
			link.Receive(func(message []byte, from netip.Addr) {
				heard(func(now time.Duration) []*dhcpv6.Message { return c.machine.Receive(now, message, from) })
			})
		})
}

// Conflict says that another machine has one of the lease's addresses.
func (c *Client) Conflict(ip netip.Addr) {
	c.Event(func(now time.Duration) []*dhcpv6.Message { return c.machine.Conflict(now, ip) })
}
