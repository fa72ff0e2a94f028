package dhcp4

import (
	"fmt"
	"math/rand/v2"
	"net/netip"
	"time"

	"reveille/netcfg/dhcp"
)

// Link is the sockets of an interface, good while its carrier lasts.
type Link interface {
	// Broadcast sends a message to all servers, from 0.0.0.0 or an address.
	Broadcast(message []byte, from netip.Addr) error
	// Unicast sends a message by the kernel's routes.
	Unicast(message []byte, from, to netip.Addr) error
	// ARP asks the link for target.
	ARP(mac [6]byte, sender, target netip.Addr) error
	// Receive calls the functions until the link is closed.
	Receive(message func([]byte), arp func(mac [6]byte, sender, target netip.Addr))
	Close() error
}

// Client is a Machine with sockets and a timer. Its methods may be called at
// the same time.
type Client struct {
	*dhcp.Client[Link, Action, Lease]
	machine *Machine // under the client's lock
}

// NewClient makes a client that waits for Up. now is the time since the
// machine's start; changed is called, from any goroutine, after each change of
// the status, told whether the lease is another, and must not wait for the
// client.
func NewClient(cfg Config, lease *Lease, now func() time.Duration, changed func(lease bool)) *Client {
	m := NewMachine(cfg, lease, rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64())))
	perform := func(link Link, a Action) error { return perform(link, cfg.MAC, a) }
	return &Client{dhcp.NewClient(m, now, changed, perform), m}
}

// Up begins on a link that has carrier; the client closes the link. resumed
// says that it has had carrier ever since the lease that the client was made
// with was in use.
func (c *Client) Up(link Link, resumed bool) {
	start := c.machine.Up
	if resumed {
		start = c.machine.Resume
	}
	c.Client.Up(link, start, func(heard func(func(time.Duration) []Action)) {
		link.Receive(
			func(message []byte) {
				heard(func(now time.Duration) []Action { return c.machine.Receive(now, message) })
			},
			func(mac [6]byte, sender, target netip.Addr) {
				heard(func(now time.Duration) []Action { return c.machine.Heard(now, mac, sender, target) })
			})
	})
}

func perform(link Link, mac [6]byte, a Action) error {
	switch a := a.(type) {
	case Send:
		if a.To.IsValid() {
			return link.Unicast(a.Message.ToBytes(), a.From, a.To)
		}
		return link.Broadcast(a.Message.ToBytes(), a.From)
	case Probe:
		return link.ARP(mac, netip.IPv4Unspecified(), a.Address)
	case Announce:
		return link.ARP(mac, a.Address, a.Address)
	}
	return fmt.Errorf("unknown action %T", a)
}
