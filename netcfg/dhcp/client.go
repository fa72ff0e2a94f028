package dhcp

import (
	"io"
	"sync"
	"time"
)

// Machine is a protocol: pure, an event and the time in, actions out.
type Machine[Action, Lease any] interface {
	// Tick does what is due; Next is when it must be called at the latest.
	Tick(now time.Duration) []Action
	Next() time.Duration
	// Down says that the link lost its carrier.
	Down()
	Status() Status[Lease]
}

// Link is an interface's sockets, good while its carrier lasts.
type Link interface {
	comparable
	io.Closer
}

// Client keeps the lease of one interface: a machine with the sockets of a link
// and a timer. Its methods may be called at the same time.
type Client[L Link, Action, Lease any] struct {
	now     func() time.Duration
	changed func(lease bool)
	perform func(L, Action) error

	mu      sync.Mutex
	machine Machine[Action, Lease]
	link    L // its zero value without carrier
	told    Status[Lease]
	timer   *time.Timer
	failed  error // of the last action
	closed  bool
}

// NewClient makes a client that waits for Up. now is the time since the
// machine's start; changed is called, from any goroutine, after each change of
// the status but for the count of what was dropped, and told whether the lease
// is another; it must not wait for the client. perform carries an action out.
func NewClient[L Link, Action, Lease any](
	m Machine[Action, Lease], now func() time.Duration, changed func(lease bool), perform func(L, Action) error,
) *Client[L, Action, Lease] {
	c := &Client[L, Action, Lease]{now: now, changed: changed, perform: perform, machine: m}
	c.mu.Lock() // the timer may be due at once
	defer c.mu.Unlock()
	c.timer = time.AfterFunc(time.Hour, c.tick)
	c.set()
	return c
}

// Up begins with start on a link that has carrier; the client closes the link.
// What that changes is the caller's to read, not told. receive reads the link
// until it is closed, and hands what it heard, as events for the machine, to its
// argument.
func (c *Client[L, Action, Lease]) Up(link L, start func(now time.Duration) []Action, receive func(heard func(event func(now time.Duration) []Action))) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		link.Close()
		return
	}
	c.down()
	c.link = link
	go receive(func(event func(time.Duration) []Action) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.link == link {
			c.do(event(c.now()))
		}
	})
	c.act(start(c.now()))
	c.arm()
}

// Event tells the machine something that did not come by the link.
func (c *Client[L, Action, Lease]) Event(event func(now time.Duration) []Action) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.do(event(c.now()))
}

// Down says that the link has no carrier, or is gone.
func (c *Client[L, Action, Lease]) Down() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down()
	c.set()
}

func (c *Client[L, Action, Lease]) down() {
	var none L
	if c.link != none {
		c.link.Close() // its readers end
		c.link = none
	}
	c.machine.Down()
}

// Close ends the client. The lease is not released: the same node will ask for
// it again, and until then nobody else shall get the address.
func (c *Client[L, Action, Lease]) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down()
	c.closed = true
	c.timer.Stop()
}

// Status is the client's state now. An error of the last action is its problem.
func (c *Client[L, Action, Lease]) Status() Status[Lease] {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed && c.now() >= c.machine.Next() {
		c.do(c.machine.Tick(c.now())) // the timer is late: a lease that ended is none
	}
	return c.status()
}

func (c *Client[L, Action, Lease]) status() Status[Lease] {
	s := c.machine.Status()
	if c.failed != nil && s.Problem == "" {
		s.Problem = c.failed.Error()
	}
	return s
}

func (c *Client[L, Action, Lease]) tick() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.closed {
		c.do(c.machine.Tick(c.now()))
	}
}

// do carries the machine's actions out. One that fails is a lost packet: the
// machine sends again.
func (c *Client[L, Action, Lease]) do(actions []Action) {
	c.act(actions)
	c.set()
}

func (c *Client[L, Action, Lease]) act(actions []Action) {
	var none L
	for _, a := range actions {
		if c.link != none {
			c.failed = c.perform(c.link, a)
		}
	}
}

// longSleep keeps timers in a range that no clock arithmetic overflows.
const longSleep = 24 * time.Hour

// set tells what changed. Most packets change nothing: each neighbour's ARP is
// heard, and other clients' answers.
func (c *Client[L, Action, Lease]) set() {
	c.arm()
	last := c.told
	c.told = c.status()
	c.told.Dropped = 0
	if c.told != last {
		c.changed(c.told.Lease != last.Lease)
	}
}

func (c *Client[L, Action, Lease]) arm() {
	c.timer.Reset(min(max(c.machine.Next()-c.now(), 0), longSleep))
}
