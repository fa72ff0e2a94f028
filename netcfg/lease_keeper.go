package netcfg

import (
	"cmp"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"reveille/netcfg/dhcp4"
	"reveille/netcfg/dhcp6"
)

// keeper runs a DHCP client for each interface that wants a lease, from when
// the interface is there until it is gone. It is used under the reconciler's
// turn; the clients run beside it and say by its channels that they have news.
type keeper struct {
	cfg     *Config
	log     *slog.Logger
	env     leaseEnv
	store   leaseStore
	users   int // Converge and Run: the clients run as long as either
	clients map[tenantKey]*leaseClient
	tenants []tenant                        // as of the last follow
	c       chan struct{}                   // a lease came or went
	state   chan struct{}                   // something else of a client's status changed
	macs    atomic.Pointer[map[string]bool] // of all our interfaces, as of the last follow
}

// leaseEnv is the world of the clients.
type leaseEnv struct {
	now      func() time.Duration // since the machine's start
	listen4  func(index int, name string) (dhcp4.Link, error)
	listen6  func(index int, name string) (dhcp6.Link, error)
	hostname func() string
	machine  func() string // its UUID, as the firmware tells it
}

// tenantKey is one family on one interface. A device that was made anew, or
// has another MAC, is another client.
type tenantKey struct {
	link  string
	index int
	mac   string
	six   bool
}

// leaseClient is a DHCP client of either version.
type leaseClient struct {
	protocol
	id      []byte // its identifier
	file    string // of the store
	started bool   // up at least once
	running bool   // up
	failed  string // why it cannot be up

	stateless bool // what routers said when it was last up
	last      clientStatus
	said      string // the last lease that was logged
	kept      any    // what the store has
}

// protocol is what the clients of both versions can do.
type protocol interface {
	// up begins on an interface with carrier. resumed says that the lease that
	// the client was made with is in use.
	up(d *LinkState, resumed bool) error
	down()
	close()
	status(now time.Duration) clientStatus
}

type clientStatus struct {
	lease    *lease // nil for none
	kept     any    // the same as the store has it, nil for none
	state    string
	attempts int
	dropped  int
	waiting  leaseWait
}

func newKeeper(cfg *Config, log *slog.Logger, env leaseEnv, store leaseStore) *keeper {
	k := &keeper{
		cfg: cfg, log: log, env: env, store: store,
		clients: map[tenantKey]*leaseClient{}, c: make(chan struct{}, 1), state: make(chan struct{}, 1),
	}
	k.macs.Store(&map[string]bool{})
	return k
}

// changed may be called from anywhere.
func (k *keeper) changed(lease bool) {
	c := k.state
	if lease {
		c = k.c
	}
	select {
	case c <- struct{}{}:
	default: // one is waiting already
	}
}

// leave ends the clients with their last user. Their addresses stay as long as
// the leases last.
func (k *keeper) leave() {
	if k.users--; k.users > 0 {
		return
	}
	for _, c := range k.clients {
		c.close()
	}
	clear(k.clients)
}

// follow makes the clients those that the interfaces in have need, and takes
// down what they have got by now.
func (k *keeper) follow(have State) {
	if !k.cfg.wantsLeases() {
		return
	}
	k.tenants = nil
	k.noteMACs(have)
	alive := map[tenantKey]bool{}
	k.each(have, func(key tenantKey, l *link, d *LinkState, p *planner) {
		alive[key] = true
		k.tend(key, l, d, p)
	})
	for key, c := range k.clients {
		if !alive[key] {
			c.close()
			delete(k.clients, key)
		}
	}
}

// noteMACs takes down which MACs are ours, before an address is used that our
// other ports then answer for.
func (k *keeper) noteMACs(have State) {
	macs := map[string]bool{}
	for _, d := range have.Links {
		macs[d.MAC] = true
	}
	k.macs.Store(&macs)
}

// ours may be called from anywhere.
func (k *keeper) ours(mac [6]byte) bool { return (*k.macs.Load())[macString(mac[:])] }

// each calls do for every interface in have that wants a lease, and version.
func (k *keeper) each(have State, do func(tenantKey, *link, *LinkState, *planner)) {
	p := newPlanner(k.cfg, have)
	p.bindNICs()
	for i := range k.cfg.links {
		l := &k.cfg.links[i]
		for _, six := range l.families() {
			for _, d := range p.interfaces(l) {
				if len(macBytes(d.permanentMAC())) == 6 { // DHCP is for Ethernet here
					do(tenantKey{l.id, d.Index, d.MAC, six}, l, d, p)
				}
			}
		}
	}
}

// families is which of DHCPv4 (false) and DHCPv6 (true) the link wants.
func (l *link) families() []bool {
	var out []bool
	if l.dhcp4 != nil {
		out = append(out, false)
	}
	if l.dhcp6 != nil {
		out = append(out, true)
	}
	return out
}

// interfaces is those of a wanted link that are there and that shall have its
// addresses.
func (p *planner) interfaces(l *link) []*LinkState {
	if p.masters[l.id] != nil {
		return nil
	}
	var out []*LinkState
	for _, index := range p.indices(l) {
		out = append(out, p.link(index))
	}
	return out
}

// tend brings one client in line with its interface.
func (k *keeper) tend(key tenantKey, l *link, d *LinkState, p *planner) {
	c := k.clients[key]
	if c == nil {
		c = k.start(key, l, d)
		k.clients[key] = c
	}
	c.tendV6(d, p)
	linked := d.Up && d.Carrier && d.Master == 0
	ready := linked && (!key.six || p.readyForV6(d.Index))
	if ready != c.running {
		k.toggle(c, d, ready, p)
	}
	c.last = c.status(k.env.now())
	t := p.tenant(key, d, c.last)
	switch {
	case t.lease != nil:
	case c.failed != "":
		t.waiting = leaseWait{reason: c.failed}
	case linked && !ready:
		t.waiting = leaseWait{reason: "no link-local address to ask from", soon: l.linkLocal}
	}
	k.tenants = append(k.tenants, t)
	k.report(t, c)
	k.keep(c)
}

func (p *planner) tenant(key tenantKey, d *LinkState, s clientStatus) tenant {
	t := tenant{link: key.link, name: d.Name, six: key.six, maxMTU: d.MaxMTU, clientStatus: s}
	if parent := p.link(d.Parent); parent != nil && d.Kind == string(kindVLAN) {
		t.maxMTU = parent.MTU
	}
	return t
}

func (k *keeper) toggle(c *leaseClient, d *LinkState, ready bool, p *planner) {
	c.failed, c.running = "", ready
	if !ready {
		c.down()
		return
	}
	// After a restart of the program: nothing happened to the link if the
	// address is still there.
	resumed := false
	if l := c.status(k.env.now()).lease; l != nil && !c.started && len(l.addresses) > 0 {
		for _, a := range p.addressesOf[d.Index] {
			resumed = resumed || a.Prefix == l.addresses[0].Prefix
		}
	}
	if err := c.up(d, resumed); err != nil {
		c.failed, c.running = err.Error(), false // the next look tries again
		return
	}
	c.started, c.stateless = true, d.stateless()
}

// report logs a lease when it is another than before, not when it goes on.
func (k *keeper) report(t tenant, c *leaseClient) {
	text := ""
	if t.lease != nil {
		text = fmt.Sprintf("%s from %s", cmp.Or(t.lease.addressText(), "a configuration"), t.lease.server)
	}
	switch {
	case text == c.said:
		return
	case text == "":
		k.log.Warn(fmt.Sprintf("%s: lost %s: %s; asking anew", t.name, c.said, c.last.waiting.reason))
	case t.lease.expire == noEnd:
		k.log.Info(fmt.Sprintf("%s: leased %s for ever", t.name, text))
	default:
		left := (t.lease.expire - k.env.now()).Round(time.Second)
		k.log.Info(fmt.Sprintf("%s: leased %s for %s", t.name, text, left))
	}
	c.said = text
}

// keep stores the lease when it is another or goes on.
func (k *keeper) keep(c *leaseClient) {
	if c.last.kept == c.kept {
		return
	}
	c.kept = c.last.kept
	if err := k.store.save(c.file, c.id, c.kept); err != nil {
		k.log.Warn(err.Error() + ", going on: after a restart the lease is asked for anew")
	}
}

// start makes the client, with the lease that an earlier run of this program
// left.
func (k *keeper) start(key tenantKey, l *link, d *LinkState) *leaseClient {
	id := identify(l, d, k.env.machine())
	c := &leaseClient{file: k.store.path(key, d.Name)}
	if key.six {
		k.startV6(c, id)
	} else {
		k.startV4(c, l, id)
	}
	return c
}

// saved is the tenants with the leases that the store has.
func (k *keeper) saved(have State) []tenant {
	var out []tenant
	k.each(have, func(key tenantKey, l *link, d *LinkState, p *planner) {
		s := clientStatus{lease: k.load(key, l, d)}
		if s.lease == nil {
			s.waiting = leaseWait{reason: "no lease yet"}
		}
		out = append(out, p.tenant(key, d, s))
	})
	return out
}

// load is the lease of a client that the store has, nil for none.
func (k *keeper) load(key tenantKey, l *link, d *LinkState) *lease {
	id, path := identify(l, d, k.env.machine()), k.store.path(key, d.Name)
	var v4 dhcp4.Lease
	var v6 dhcp6.Lease
	switch {
	case !key.six && k.store.load(path, id.clientID(l.dhcpID), &v4) && v4.Expire > k.env.now():
		return leaseOfV4(&v4)
	case key.six && k.store.load(path, id.v6(), &v6) && v6.Expire > k.env.now():
		return leaseOfV6(&v6)
	}
	return nil
}
