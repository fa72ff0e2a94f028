// Package join is the node's side of the cluster protocol: it enrols once with
// a ticket, joins on every boot by mutual TLS, and then keeps the membership
// alive by heartbeats.
//
//	client, err := join.New(join.Config{Endpoints: .., Log: ..})
//	grant, err := client.Enrol(ctx, join.Enrolment{..})   // first boot; keep the grant
//	member, err := client.Join(ctx, join.Member{..})      // every boot
//	err = member.Run(ctx)                                 // until ctx ends or we are refused
//
// Every step may be repeated, after a crash or a lost reply, with the same
// result. A step ends with success, with the end of its context, or with a
// *Refused, which repeating the request cannot change; everything else is
// retried for ever, and Client.Waiting says at any time on what, why and since
// when.
//
// Time comes only from contexts and timers, so tests run on a fake clock.
package join

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/identity"
)

// Network is what a client needs of the machine's network.
type Network interface {
	LookupNetIP(ctx context.Context, network, host string) ([]netip.Addr, error)
	DialContext(ctx context.Context, network, address string) (net.Conn, error)
}

// Config is what every step needs. Only Network may be absent, and then is
// the machine's own.
type Config struct {
	Endpoints []string       // host:port of the node parameters
	Clock     identity.Clock // whether certificate dates can be checked yet; nil trusts the local clock
	Log       *slog.Logger
	Network   Network
	// WaitingIsShown says that the caller shows Waiting by itself while Enrol
	// and Join run. The log then has each new cause, and does not repeat.
	WaitingIsShown bool
}

// Client knows the ways to a cluster. One step runs at a time; Waiting may be
// called at any time.
type Client struct {
	clock   identity.Clock
	log     *slog.Logger
	network Network
	shown   bool // see Config.WaitingIsShown
	retries backoff

	mu      sync.Mutex
	given   []string        // endpoints of the node parameters
	learned []string        // addresses of the directory
	broken  map[string]bool // endpoints whose controller answered the last time, and then failed
	waiting *wait           // of the step that waits; nil when none does
}

// machine is the network of this machine. The zero Resolver and Dialer have no
// deadlines of their own: the contexts have them.
type machine struct {
	net.Resolver
	net.Dialer
}

// New returns a client for the given endpoints.
func New(cfg Config) (*Client, error) {
	if len(cfg.Endpoints) == 0 {
		return nil, errors.New("find the cluster: no endpoints given")
	}
	for _, e := range cfg.Endpoints {
		if err := identity.CheckAddress(e); err != nil {
			return nil, err
		}
	}
	if cfg.Network == nil {
		cfg.Network = &machine{}
	}
	return &Client{
		clock:   cfg.Clock,
		log:     cfg.Log,
		network: cfg.Network,
		shown:   cfg.WaitingIsShown,
		retries: backoff{int64n: rand.Int64N},
		given:   cfg.Endpoints,
		broken:  map[string]bool{},
	}, nil
}

// learn makes a verified directory's addresses endpoints beside the given
// ones, in place of those of the directory before.
func (c *Client) learn(dir *clusterv1.Directory) {
	var addrs []string
	for _, ctl := range dir.GetControllers() {
		addrs = append(addrs, ctl.GetAddresses()...)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.learned = addrs
	clear(c.broken) // or the map would grow with every directory
}

// endpoints returns all known endpoints in random order, but the broken ones
// last: they win every race, and would be chosen for ever.
func (c *Client) endpoints() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	all := slices.Concat(c.given, c.learned)
	slices.Sort(all)
	all = slices.Compact(all)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	rank := map[bool]int{true: 1}
	slices.SortStableFunc(all, func(a, b string) int { return rank[c.broken[a]] - rank[c.broken[b]] })
	return all[:min(len(all), maxEndpoints)]
}

// judge remembers whether the controller that answered at endpoint is of use.
func (c *Client) judge(endpoint string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err != nil {
		c.broken[endpoint] = true
	} else {
		delete(c.broken, endpoint)
	}
}

// Waiting says what the current step waits for, like "waiting 42s, attempt 7:
// 3 of 3 endpoints failed: ..; next try in 8s". It is empty while nothing has
// to be waited for.
func (c *Client) Waiting() string {
	c.mu.Lock()
	w := c.waiting
	c.mu.Unlock()
	if w == nil {
		return ""
	}
	return w.String()
}

// attempt tries the endpoints until one passes TLS and then call, and returns
// the session with it. It ends when all have failed (*Unreachable), when the
// cluster refuses (*Refused), or with ctx.
func (c *Client) attempt(ctx context.Context, conf *tls.Config, step string, call func(context.Context, *session) error) (*session, error) {
	var own *x509.Certificate
	if len(conf.Certificates) > 0 {
		own = conf.Certificates[0].Leaf
	}
	h := newHunt(c.network, conf, c.endpoints())
	for {
		conn, t := h.next(ctx)
		if ctx.Err() != nil {
			closeConn(conn)
			return nil, ctx.Err()
		}
		if conn == nil {
			return nil, &Unreachable{Endpoints: h.total, Failures: h.failed}
		}
		s := newSession(conn, t.endpoint, own)
		err := s.call(ctx, step, call)
		c.judge(t.endpoint, err)
		if err == nil {
			if len(h.failed) > 0 {
				c.log.Warn(fmt.Sprintf("%s; going on with %s", summary(h.failed), t.endpoint))
			}
			return s, nil
		}
		s.close()
		if ctx.Err() != nil || isRefused(err) {
			return nil, err
		}
		h.fail(t, StepCall, err)
	}
}
