package dhcp4

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"
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

// Client keeps the lease of one interface: a Machine with sockets and a timer.
// Its methods may be called at the same time.
type Client struct {
	now     func() time.Duration
	changed func()

	mu      sync.Mutex
	machine *Machine
	link    Link // nil without carrier
	timer   *time.Timer
	failed  error // of the last send
	closed  bool
}

// NewClient makes a client that waits for Up. now is the time since the
// machine's start; changed is called, from any goroutine, after each change of
// the status, and must not wait for the client.
func NewClient(cfg Config, lease *Lease, now func() time.Duration, changed func()) *Client {
	rnd := rand.New(rand.NewPCG(rand.Uint64(), rand.Uint64()))
	c := &Client{now: now, changed: changed, machine: NewMachine(cfg, lease, rnd)}
	c.timer = time.AfterFunc(time.Hour, c.tick)
	c.set()
	return c
}

// Up begins on a link that has carrier; the client closes the link. resumed
// says that it has had carrier ever since the lease that the client was made
// with was in use.
func (c *Client) Up(link Link, resumed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		link.Close()
		return
	}
	c.down()
	c.link = link
	go link.Receive(
		func(message []byte) {
			c.event(link, func(now time.Duration) []Action { return c.machine.Receive(now, message) })
		},
		func(mac [6]byte, sender, target netip.Addr) {
			c.event(link, func(now time.Duration) []Action { return c.machine.Heard(now, mac, sender, target) })
		})
	start := c.machine.Up
	if resumed {
		start = c.machine.Resume
	}
	c.do(start(c.now()))
}

// Down says that the link has no carrier, or is gone.
func (c *Client) Down() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down()
	c.set()
}

func (c *Client) down() {
	if c.link != nil {
		c.link.Close() // its readers end
		c.link = nil
	}
	c.machine.Down()
}

// Close ends the client. The lease is not released: the same node will ask for
// it again, and until then nobody else shall get the address.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down()
	c.closed = true
	c.timer.Stop()
}

// Status is the client's state now. Failed is the error of the last send.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && c.now() >= c.machine.Next() {
		c.do(c.machine.Tick(c.now())) // the timer is late: a lease that ended is none
	}
	s := c.machine.Status()
	if c.failed != nil && s.Problem == "" {
		s.Problem = c.failed.Error()
	}
	return s
}

func (c *Client) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.do(c.machine.Tick(c.now()))
	}
}

// event is something that link received.
func (c *Client) event(link Link, event func(time.Duration) []Action) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.link == link {
		c.do(event(c.now()))
	}
}

// do carries the machine's actions out. A send that fails is a lost packet:
// the machine sends again.
func (c *Client) do(actions []Action) {
	for _, a := range actions {
		if c.link == nil {
			break
		}
		switch a := a.(type) {
		case Send:
			if a.To.IsValid() {
				c.failed = c.link.Unicast(a.Message.ToBytes(), a.From, a.To)
			} else {
				c.failed = c.link.Broadcast(a.Message.ToBytes(), a.From)
			}
		case Probe:
			c.failed = c.link.ARP(c.machine.cfg.MAC, netip.IPv4Unspecified(), a.Address)
		case Announce:
			c.failed = c.link.ARP(c.machine.cfg.MAC, a.Address, a.Address)
		}
	}
	c.set()
}

// longSleep keeps timers in a range that no clock arithmetic overflows.
const longSleep = 24 * time.Hour

func (c *Client) set() {
	c.timer.Reset(min(max(c.machine.Next()-c.now(), 0), longSleep))
	c.changed()
}
