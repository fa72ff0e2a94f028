package cluster

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"path/filepath"
	"time"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/operator"
	"reveille/boot/identity"
)

// start makes the controller known: to the store, to nodes through the
// directory, to the operator through operator.yaml. It listens only when it
// has its store: until then a refused connection sends nodes elsewhere.
func (c *controller) start(ctx context.Context) error {
	var err error
	if c.authority, err = c.openCluster(ctx); err != nil {
		return err
	}
	if c.listener, err = net.Listen("tcp", c.cfg.Listen); err != nil {
		return fmt.Errorf("open listener: %w", err)
	}
	if err := c.announce(ctx); err != nil {
		_ = c.listener.Close() // the cause is err
		return err
	}
	return nil
}

func (c *controller) announce(ctx context.Context) error {
	if err := c.chooseAddresses(); err != nil {
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

// issue makes a key and its certificate, for this run of the controller.
func (c *controller) issue(role identity.Role, name string, lifetime time.Duration) (*x509.Certificate, *identity.Key, error) {
	key, err := identity.NewKey()
	if err != nil {
		return nil, nil, err
	}
	cert, err := c.authority.Issue(role, name, key.Public(), time.Now(), lifetime)
	if err != nil {
		return nil, nil, err
	}
	return cert, key, nil
}

func (c *controller) writeContext() error {
	cert, key, err := c.issue(identity.RoleOperator, "operator", operatorLifetime)
	if err != nil {
		return err
	}
	op := operator.Context{Endpoints: operatorEndpoints(c.bound, c.addresses), CA: c.authority.Certificate, Certificate: cert, Key: key}
	return op.Write(filepath.Join(c.cfg.DataDir, "operator.yaml"))
}

func (c *controller) prepareServer(ctx context.Context) error {
	leaf, key, err := c.issue(identity.RoleController, c.cfg.Name, 0)
	if err != nil {
		return err
	}
	cert := identity.Certificate(leaf, c.authority.Certificate, key)
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
