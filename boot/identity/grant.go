package identity

import (
	"bytes"
	"crypto"
	"crypto/tls"
	"crypto/x509"
	"fmt"

	"reveille/boot/cluster/clusterv1"
)

// Grant is what an enrolment gave, verified.
type Grant struct {
	Peer        Peer // role node, with the cluster's id
	NodeID      string
	CA          *x509.Certificate
	Certificate *x509.Certificate
	Directory   *clusterv1.Directory
	Signed      *clusterv1.SignedDirectory // as sent, to be kept
	TPMMode     clusterv1.TpmMode          // REQUIRED or DISABLED
}

// ParseGrant checks that an enrolment's answer is whole and ours before it is
// kept: the CA has the pin, the certificate is the CA's, for a node called
// name and for our public key, the directory is good, the TPM mode decided.
// Dates are not checked: the answer is also what tells the time.
func ParseGrant(resp *clusterv1.EnrolResponse, pin Pin, name string, pub crypto.PublicKey) (*Grant, error) {
	g, err := parseGrant(resp, pin, name, pub)
	if err != nil {
		return nil, fmt.Errorf("check grant: %w", err)
	}
	return g, nil
}

func parseGrant(resp *clusterv1.EnrolResponse, pin Pin, name string, pub crypto.PublicKey) (*Grant, error) {
	ca, err := x509.ParseCertificate(resp.GetCaCertificate())
	if err != nil {
		return nil, fmt.Errorf("parse CA certificate: %w", err)
	}
	if _, err := pinned([]*x509.Certificate{ca}, pin); err != nil {
		return nil, err
	}
	leaf, err := x509.ParseCertificate(resp.GetCertificate())
	if err != nil {
		return nil, fmt.Errorf("parse certificate: %w", err)
	}
	peer := Peer{ClusterID: resp.GetClusterId(), Role: RoleNode, Name: name}
	if err := CheckNode(leaf, ca, peer, pub); err != nil {
		return nil, err
	}
	dir, err := VerifyDirectory(resp.GetDirectory(), ca)
	if err != nil {
		return nil, err
	}
	switch resp.GetTpmMode() {
	case clusterv1.TpmMode_TPM_MODE_REQUIRED, clusterv1.TpmMode_TPM_MODE_DISABLED:
	default:
		return nil, fmt.Errorf("check TPM mode: %s is not a decision", resp.GetTpmMode())
	}
	return &Grant{Peer: peer, NodeID: resp.GetNodeId(), CA: ca, Certificate: leaf,
		Directory: dir, Signed: resp.GetDirectory(), TPMMode: resp.GetTpmMode()}, nil
}

// CheckNode reports why leaf is not the certificate of peer for the key pub
// under ca: for a grant, and for a sealed config after it was opened. Dates
// are not checked.
func CheckNode(leaf, ca *x509.Certificate, peer Peer, pub crypto.PublicKey) error {
	if err := verifyChain([]*x509.Certificate{leaf}, ca, peer, x509.ExtKeyUsageClientAuth, unknownTime); err != nil {
		return err
	}
	want, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return fmt.Errorf("encode public key: %w", err)
	}
	if !bytes.Equal(leaf.RawSubjectPublicKeyInfo, want) {
		return fmt.Errorf("check certificate of %s: it is for another key", peer)
	}
	return nil
}

// TLS is the grant and its key as a tls.Certificate.
func (g *Grant) TLS(key crypto.Signer) tls.Certificate { return Certificate(g.Certificate, g.CA, key) }
