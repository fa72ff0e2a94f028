// Package cluster is the controller: it enrols nodes by ticket, lets enrolled
// nodes join, keeps what they say about themselves, and answers operators.
//
// A controller keeps nothing but an open store: etcd, embedded by default.
// Any number of them may serve one external etcd, and a node may change
// between them with every request.
package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/operator"
	"reveille/boot/identity"
)

// Config is what `reveille controller run` was told.
type Config struct {
	Name      string        // in the directory and the certificate; empty: the host's name
	DataDir   string        // lock, operator.yaml, and the embedded etcd
	Listen    string        // host:port; port 0 lets the kernel choose
	Advertise []string      // host:port for the directory; empty: derived from Listen
	Etcd      External      // no endpoints: embedded
	Heartbeat time.Duration // interval asked of nodes; zero: 5 s
	Log       *slog.Logger
	Ready     func(Ready) // called once, when requests are served
}

// Ready tells where a controller serves.
type Ready struct {
	Listen string // the bound address
	CA     identity.Pin
}

const (
	// Short enough that an operator sees a node go within 15 s, long enough
	// that a thousand nodes are 200 writes a second.
	defaultHeartbeat = 5 * time.Second
	// Requests in flight at shutdown get this long; followed logs end at once.
	drainTimeout = 3 * time.Second
	// A context file is made at every start; this bounds a stolen one.
	operatorLifetime = 365 * 24 * time.Hour
)

// Run serves until ctx ends, which is no error, or until the store is lost.
func Run(ctx context.Context, cfg Config) error {
	if cfg.Heartbeat == 0 {
		cfg.Heartbeat = defaultHeartbeat
	}
	if cfg.Name == "" {
		cfg.Name = hostLabel()
	}
	if err := identity.CheckName(cfg.Name); err != nil {
		return fmt.Errorf("name controller: %w; choose one with --name", err)
	}
	lock, err := lockData(cfg.DataDir)
	if err != nil {
		return err
	}
	defer func() { _ = lock.Close() }()
	ln, err := net.Listen("tcp", cfg.Listen)
	if err != nil {
		return fmt.Errorf("open listener: %w", err)
	}
	defer func() { _ = ln.Close() }() // the server has closed it already, unless starting went wrong
	b, err := openBackend(ctx, cfg)
	if err != nil {
		return err
	}
	defer b.close()
	c := &controller{cfg: cfg, store: &store{b.client}, listener: ln}
	if err := c.start(ctx); err != nil {
		return err
	}
	return c.serve(ctx, b.failed)
}

// hostLabel is the host's own name as a DNS label, "controller" if it has none.
func hostLabel() string {
	host, err := os.Hostname()
	name, _, _ := strings.Cut(strings.ToLower(host), ".")
	if err != nil || identity.CheckName(name) != nil {
		return "controller"
	}
	return name
}

func openBackend(ctx context.Context, cfg Config) (*backend, error) {
	if len(cfg.Etcd.Endpoints) > 0 {
		return dialEtcd(cfg.Etcd)
	}
	return startEtcd(ctx, cfg.DataDir, cfg.Log)
}

type controller struct {
	cfg       Config
	store     *store
	listener  net.Listener
	authority *identity.Authority
	bound     netip.AddrPort
	addresses []string // advertised
	server    *http.Server
}

// start makes the controller known: to the store, to nodes through the
// directory, to the operator through operator.yaml.
func (c *controller) start(ctx context.Context) error {
	var err error
	if err = c.chooseAddresses(); err != nil {
		return err
	}
	if c.authority, err = c.openCluster(ctx); err != nil {
		return err
	}
	self := &clusterv1.Controller{Name: c.cfg.Name, Addresses: c.addresses}
	dir, err := register(ctx, c.store, c.authority, self)
	if err != nil {
		return err
	}
	if err := c.writeContext(); err != nil {
		return err
	}
	c.cfg.Log.Info("controller registered", "cluster", c.authority.ClusterID, "name", self.GetName(),
		"advertise", self.GetAddresses(), "directory", dir.GetGeneration(), "controllers", len(dir.GetControllers()))
	return c.prepareServer(ctx)
}

func (c *controller) chooseAddresses() error {
	var err error
	if c.bound, err = netip.ParseAddrPort(c.listener.Addr().String()); err != nil {
		return fmt.Errorf("read bound address: %w", err)
	}
	interfaces, err := interfaceAddresses()
	if err != nil {
		return err
	}
	c.addresses, err = advertised(c.cfg.Advertise, c.bound, interfaces)
	return err
}

// openCluster waits for a store that is not there yet: at a cold start of the
// whole site, etcd and the controllers come up in any order.
func (c *controller) openCluster(ctx context.Context) (*identity.Authority, error) {
	const pause = 2 * time.Second
	timer := time.NewTimer(0)
	defer timer.Stop()
	for attempt := 1; ; attempt++ {
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("open store: %w", ctx.Err())
		case <-timer.C:
		}
		a, err := loadAuthority(ctx, c.store, time.Now())
		if !errors.Is(err, errEtcd) {
			return a, err
		}
		c.cfg.Log.Warn(fmt.Sprintf("store does not answer, next try in %s", pause), "attempt", attempt, "cause", err)
		timer.Reset(pause)
	}
}

// leaf makes a key and certificate that live as long as this process.
func (c *controller) leaf(role identity.Role, name string, lifetime time.Duration) (*operator.Context, error) {
	key, err := identity.NewKey()
	if err != nil {
		return nil, err
	}
	cert, err := c.authority.Issue(role, name, key.Public(), time.Now(), lifetime)
	if err != nil {
		return nil, err
	}
	return &operator.Context{Endpoints: operatorEndpoints(c.bound, c.addresses), CA: c.authority.Certificate, Certificate: cert, Key: key}, nil
}

func (c *controller) writeContext() error {
	op, err := c.leaf(identity.RoleOperator, "operator", operatorLifetime)
	if err != nil {
		return err
	}
	return op.Write(filepath.Join(c.cfg.DataDir, "operator.yaml"))
}

func (c *controller) prepareServer(ctx context.Context) error {
	own, err := c.leaf(identity.RoleController, c.cfg.Name, 0)
	if err != nil {
		return err
	}
	cert := identity.Certificate(own.Certificate, own.CA, own.Key)
	log := c.cfg.Log
	s := &services{
		enrolment:  &enrolmentService{store: c.store, authority: c.authority, log: log},
		membership: &membershipService{store: c.store, interval: c.cfg.Heartbeat, log: log},
		operator: &operatorService{store: c.store, interval: c.cfg.Heartbeat, log: log,
			relay: &relay{running: ctx, authority: c.authority, certificate: cert}},
		log: log,
	}
	c.server = newServer(s.handler(), identity.ServerTLS(c.authority.Certificate, cert, identity.SystemClock), log)
	return nil
}

func (c *controller) serve(ctx context.Context, storeFailed <-chan error) error {
	served := make(chan error, 1)
	go func() { served <- c.server.ServeTLS(c.listener, "", "") }()
	if c.cfg.Ready != nil {
		c.cfg.Ready(Ready{Listen: c.listener.Addr().String(), CA: identity.PinOf(c.authority.Certificate)})
	}
	var cause error
	select {
	case <-ctx.Done():
	case err := <-served:
		cause = fmt.Errorf("serve %s: %w", c.listener.Addr(), err)
	case cause = <-storeFailed:
	}
	c.stop()
	return cause
}

// stop lets requests end, then cuts off those that do not.
func (c *controller) stop() {
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if err := c.server.Shutdown(ctx); err != nil {
		_ = c.server.Close()
	}
	c.cfg.Log.Info("controller stopped")
}
