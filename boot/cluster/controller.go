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
	"strings"
	"time"

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
	err := run(ctx, cfg)
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		return nil // asked to stop while it was starting
	}
	return err
}

func run(ctx context.Context, cfg Config) error {
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
	b, err := openBackend(ctx, cfg)
	if err != nil {
		return err
	}
	defer b.close()
	c := &controller{cfg: cfg, store: &store{b.client}}
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
