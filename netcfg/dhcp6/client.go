package dhcp6

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv6"
)

// Link is the socket of an interface, good while its carrier lasts.
type Link interface {
	// Send sends a message to all servers and relays.
	Send(message []byte) error
	// Receive calls the function until the link is closed.
	Receive(message func(message []byte, from netip.Addr))
	Close() error
}

// Client keeps the lease of one interface: a Machine with a socket and a timer.
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

// Up begins on a link that has carrier and a link-local address that is
// checked; the client closes the link. resumed says that it has had them ever
// since the lease that the client was made with was in use; stateless that its
// routers give no addresses.
func (c *Client) Up(link Link, resumed, stateless bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		link.Close()
		return
	}
	c.down()
	c.link = link
	go link.Receive(func(message []byte, from netip.Addr) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.link == link {
			c.send(c.machine.Receive(c.now(), message, from))
		}
	})
	if resumed {
		c.send(c.machine.Resume(c.now(), stateless))
	} else {
		c.send(c.machine.Up(c.now(), stateless))
	}
}

// Conflict says that another machine has one of the lease's addresses.
func (c *Client) Conflict(ip netip.Addr) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.send(c.machine.Conflict(c.now(), ip))
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
		c.link.Close() // its reader ends
		c.link = nil
	}
	c.machine.Down()
}

// Close ends the client. The lease is not released: the same node will ask for
// it again, and until then nobody else shall get the addresses.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down()
	c.closed = true
	c.timer.Stop()
}

// Status is the client's state now. An error of the last send is its problem.
func (c *Client) Status() Status {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && c.now() >= c.machine.Next() {
		c.send(c.machine.Tick(c.now())) // the timer is late: a lease that ended is none
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
		c.send(c.machine.Tick(c.now()))
	}
}

// send carries out what the machine wants. A send that fails is a lost packet:
// the machine sends again.
func (c *Client) send(messages []*dhcpv6.Message) {
	for _, d := range messages {
		if c.link != nil {
			c.failed = c.link.Send(d.ToBytes())
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
