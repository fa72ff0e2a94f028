package identity

import (
	"crypto"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"fmt"
	"net/url"
	"time"
)

// Authority is a cluster's CA: its certificate, key and the cluster's id.
type Authority struct {
	ClusterID   string
	Certificate *x509.Certificate
	Key         crypto.Signer
}

const (
	caLifetime = 10 * 365 * 24 * time.Hour
	// Certificates start a day early: a node whose clock is behind by hours
	// (local time in the RTC) still accepts them.
	early = 24 * time.Hour
)

// NewAuthority makes a CA with a new P-256 key, valid for ten years.
func NewAuthority(clusterID string, now time.Time) (*Authority, error) {
	if err := CheckName(clusterID); err != nil {
		return nil, fmt.Errorf("create CA: %w", err)
	}
	key, err := NewKey()
	if err != nil {
		return nil, fmt.Errorf("create CA: %w", err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: "CA of cluster " + clusterID},
		NotBefore:             now.Add(-early),
		NotAfter:              now.Add(caLifetime),
		IsCA:                  true,
		MaxPathLenZero:        true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature, // the latter for directories
	}
	cert, err := sign(template, template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("create CA: %w", err)
	}
	return &Authority{ClusterID: clusterID, Certificate: cert, Key: key}, nil
}

// Issue makes the certificate by which the holder of pub is the named peer of
// this cluster. A lifetime of zero means as long as the CA's.
func (a *Authority) Issue(role Role, name string, pub crypto.PublicKey, now time.Time, lifetime time.Duration) (*x509.Certificate, error) {
	peer := Peer{ClusterID: a.ClusterID, Role: role, Name: name}
	if err := CheckName(name); err != nil {
		return nil, fmt.Errorf("issue certificate: %w", err)
	}
	template := &x509.Certificate{
		Subject:               pkix.Name{CommonName: name},
		URIs:                  []*url.URL{peer.URI()},
		NotBefore:             now.Add(-early),
		NotAfter:              a.Certificate.NotAfter,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	if role != RoleOperator { // nodes and controllers also serve
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	if end := now.Add(lifetime); lifetime > 0 && end.Before(template.NotAfter) {
		template.NotAfter = end
	}
	cert, err := sign(template, a.Certificate, pub, a.Key)
	if err != nil {
		return nil, fmt.Errorf("issue certificate for %s: %w", peer, err)
	}
	return cert, nil
}

// sign leaves the serial number to the library: 160 random bits.
func sign(template, parent *x509.Certificate, pub crypto.PublicKey, key crypto.Signer) (*x509.Certificate, error) {
	der, err := x509.CreateCertificate(rand.Reader, template, parent, pub, key)
	if err != nil {
		return nil, err
	}
	return x509.ParseCertificate(der)
}
