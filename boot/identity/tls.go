package identity

import (
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"fmt"
)

// Certificate joins a leaf and its key for tls.Config. The CA rides along in
// the chain: a peer that knows only the pin takes it from there.
func Certificate(leaf, ca *x509.Certificate, key crypto.Signer) tls.Certificate {
	return tls.Certificate{Certificate: [][]byte{leaf.Raw, ca.Raw}, PrivateKey: key, Leaf: leaf}
}

// PinnedClientTLS is how a node that knows the CA only by its pin talks to a
// controller: the presented chain must include a CA certificate with that
// SHA-256, and the leaf must be its and a controller's. No certificate of our
// own is offered. Errors: ErrPin, ErrIdentity, *DateError.
func PinnedClientTLS(pin Pin, clock Clock) *tls.Config {
	return clientTLS(func(cs tls.ConnectionState) error {
		ca, err := pinned(cs.PeerCertificates, pin)
		if err != nil {
			return err
		}
		return verifyChain(cs.PeerCertificates, ca, Peer{Role: RoleController}, x509.ExtKeyUsageServerAuth, clock)
	})
}

// ClientTLS is mutual TLS to a peer that matches want (its empty fields match
// anything; the role must be given), offering cert. Errors: ErrIdentity,
// *DateError.
func ClientTLS(ca *x509.Certificate, cert tls.Certificate, want Peer, clock Clock) *tls.Config {
	cfg := clientTLS(func(cs tls.ConnectionState) error {
		return verifyChain(cs.PeerCertificates, ca, want, x509.ExtKeyUsageServerAuth, clock)
	})
	cfg.Certificates = []tls.Certificate{cert}
	return cfg
}

// clientTLS has the library's own verification off, since that wants a host
// name and a clock; VerifyConnection replaces it and runs on every connection,
// resumed ones included.
func clientTLS(verify func(tls.ConnectionState) error) *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS13,
		InsecureSkipVerify: true,
		VerifyConnection:   verify,
		NextProtos:         []string{"h2", "http/1.1"},
	}
}

// ServerTLS asks clients for a certificate, admits those without one, and
// refuses those whose certificate is not our CA's. What each may call is for
// Guard to say.
func ServerTLS(ca *x509.Certificate, cert tls.Certificate, clock Clock) *tls.Config {
	return &tls.Config{
		MinVersion:   tls.VersionTLS13,
		Certificates: []tls.Certificate{cert},
		ClientAuth:   tls.RequestClientCert,
		NextProtos:   []string{"h2", "http/1.1"},
		VerifyConnection: func(cs tls.ConnectionState) error {
			if len(cs.PeerCertificates) == 0 {
				return nil
			}
			return verifyChain(cs.PeerCertificates, ca, Peer{}, x509.ExtKeyUsageClientAuth, clock)
		},
	}
}

func pinned(chain []*x509.Certificate, pin Pin) (*x509.Certificate, error) {
	for _, cert := range chain {
		if cert.IsCA && PinOf(cert) == pin {
			return cert, nil
		}
	}
	return nil, fmt.Errorf("verify peer: %w: it is %s, cluster.ca says %s", ErrPin, presented(chain), pin.Short())
}

// presented names the last certificate of a chain, where a CA belongs.
func presented(chain []*x509.Certificate) string {
	if len(chain) == 0 {
		return "no certificate"
	}
	return PinOf(chain[len(chain)-1]).Short()
}
