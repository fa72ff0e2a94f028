package cluster

import (
	"context"
	"crypto/rand"
	"crypto/x509"
	"fmt"
	"strings"
	"time"

	"reveille/boot/cluster/storev1"
	"reveille/boot/identity"
)

// loadAuthority returns the cluster's CA, making it if the store has none.
// Several controllers may start on one empty store: the transaction lets one
// of them create it, the others read what it wrote.
func loadAuthority(ctx context.Context, s *store, now time.Time) (*identity.Authority, error) {
	var stored storev1.Cluster
	rec := &record{key: clusterKey, msg: &stored}
	err := transact(ctx, func() error {
		if err := s.load(ctx, rec); err != nil || rec.exists() {
			return err
		}
		if err := newCluster(&stored, now); err != nil {
			return err
		}
		return s.save(ctx, []*record{rec}, []*record{rec}, nil)
	})
	if err != nil {
		return nil, fmt.Errorf("load cluster identity: %w", err)
	}
	return parseCluster(&stored)
}

func newCluster(c *storev1.Cluster, now time.Time) error {
	a, err := identity.NewAuthority(newID(), now)
	if err != nil {
		return err
	}
	key, err := a.Key.(*identity.Key).Marshal()
	if err != nil {
		return err
	}
	c.Id, c.CaCertificate, c.CaKey = a.ClusterID, a.Certificate.Raw, key
	return nil
}

func parseCluster(c *storev1.Cluster) (*identity.Authority, error) {
	ca, err := x509.ParseCertificate(c.GetCaCertificate())
	if err != nil {
		return nil, fmt.Errorf("load cluster identity: parse CA certificate: %w", err)
	}
	key, err := identity.ParseKey(c.GetCaKey())
	if err != nil {
		return nil, fmt.Errorf("load cluster identity: CA key: %w", err)
	}
	return &identity.Authority{ClusterID: c.GetId(), Certificate: ca, Key: key}, nil
}

// newID is the id of a cluster or node: 80 random bits, enough for no two to
// meet, short enough to read aloud. It starts with a letter.
func newID() string { return "c" + strings.ToLower(rand.Text()[:16]) }
