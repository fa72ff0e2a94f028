// Package identity says who is who in a cluster. Nodes, controllers and
// operators all carry a certificate of the cluster's CA; its only name is the
// URI SAN
//
//	reveille://<cluster-id>/<role>/<name>
//
// and the role in it decides what its holder may call. Host names play no part:
// a node is dialled by addresses that DHCP or an operator may change, so a
// peer is verified by CA (or by the CA's pin) and role.
//
// A node uses, in the order of its life:
//
//	NewKey, NewCSR                  its identity, kept before the first request
//	PinnedClientTLS(pin, clock)     first boot: the CA is known only by its pin
//	ParseGrant                      what Enrol answered: is it ours, and whole?
//	ClientTLS(ca, cert, want, ..)   later boots: mutual TLS
//	RefusalOf, IsUnknownBoot        what an answer of a controller means
//	VerifyDirectory                 every directory, before it is used or kept
//	ServerTLS, Guard                its own API
//
// The controller's part (Authority) lives here too, so that both sides are
// tested against the real other one. The package holds no state and does no
// I/O; it must not import boot/cluster, because init's binary links it.
package identity

import (
	"crypto"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// Role is what the holder of a certificate is to the cluster.
type Role string

// The roles. A certificate with any other role is refused.
const (
	RoleNode       Role = "node"
	RoleController Role = "controller"
	RoleOperator   Role = "operator"
)

const scheme = "reveille"

// Peer is the identity in a certificate. As a wish (ClientTLS) its empty
// fields match anything.
type Peer struct {
	ClusterID string
	Role      Role
	Name      string
	KeySHA256 string // of the public key, see the function KeySHA256; set by PeerOf
}

// String is the form for logs: "node n1".
func (p Peer) String() string {
	if p.Name == "" {
		return string(p.Role)
	}
	return string(p.Role) + " " + p.Name
}

// URI is the certificate's SAN: reveille://<cluster-id>/<role>/<name>.
func (p Peer) URI() *url.URL {
	return &url.URL{Scheme: scheme, Host: p.ClusterID, Path: "/" + string(p.Role) + "/" + p.Name}
}

// matches says whether p is what want asks for.
func (p Peer) matches(want Peer) bool {
	return (want.ClusterID == "" || want.ClusterID == p.ClusterID) &&
		(want.Role == "" || want.Role == p.Role) &&
		(want.Name == "" || want.Name == p.Name) &&
		(want.KeySHA256 == "" || want.KeySHA256 == p.KeySHA256)
}

// PeerOf reads the identity from a certificate. It does not verify the
// certificate: that was the TLS configuration's work.
func PeerOf(cert *x509.Certificate) (Peer, error) {
	var found []*url.URL
	for _, u := range cert.URIs {
		if u.Scheme == scheme {
			found = append(found, u)
		}
	}
	if len(found) != 1 {
		return Peer{}, fmt.Errorf("read identity of certificate: %d %s:// names, want 1", len(found), scheme)
	}
	p, err := parsePeer(found[0])
	if err != nil {
		return Peer{}, err
	}
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	p.KeySHA256 = hex.EncodeToString(sum[:])
	return p, nil
}

func parsePeer(u *url.URL) (Peer, error) {
	parts := strings.Split(u.Path, "/")
	if len(parts) != 3 || parts[0] != "" {
		return Peer{}, fmt.Errorf("read identity %q: want %s://<cluster-id>/<role>/<name>", u, scheme)
	}
	p := Peer{ClusterID: u.Host, Role: Role(parts[1]), Name: parts[2]}
	switch p.Role {
	case RoleNode, RoleController, RoleOperator:
	default:
		return Peer{}, fmt.Errorf("read identity %q: unknown role %q", u, p.Role)
	}
	if err := errors.Join(CheckName(p.ClusterID), CheckName(p.Name)); err != nil {
		return Peer{}, fmt.Errorf("read identity %q: %w", u, err)
	}
	if u.String() != p.URI().String() { // a query, fragment, port or user hides something
		return Peer{}, fmt.Errorf("read identity %q: is not in plain form", u)
	}
	return p, nil
}

// One DNS label (RFC 1123 section 2.1, RFC 1035 section 2.3.4), lower case
// only, because names are compared as bytes.
var label = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// CheckName reports what is wrong with the name of a node, controller or
// cluster: it must be one lower-case DNS label, so that it can be a host name.
func CheckName(name string) error {
	if label.MatchString(name) {
		return nil
	}
	if len(name) > 63 {
		return fmt.Errorf("check name: %d bytes long, want at most 63", len(name))
	}
	return fmt.Errorf("check name %q: want a DNS label: a-z, 0-9 and inner hyphens", name)
}

// Pin is the SHA-256 of the CA certificate's DER: all that a node needs to
// know the cluster by.
type Pin [sha256.Size]byte

const pinPrefix = "sha256:"

// PinOf is the pin of a CA certificate.
func PinOf(ca *x509.Certificate) Pin { return sha256.Sum256(ca.Raw) }

// String is the form in node.yaml: "sha256:<64 hex digits>".
func (p Pin) String() string { return pinPrefix + hex.EncodeToString(p[:]) }

// Short is enough of it for people to tell two apart, in lines that repeat.
func (p Pin) Short() string { return pinPrefix + hex.EncodeToString(p[:8]) + ".." }

// ParsePin reads the form that String writes.
func ParsePin(s string) (Pin, error) {
	var p Pin
	digits, ok := strings.CutPrefix(s, pinPrefix)
	if !ok || len(digits) != hex.EncodedLen(len(p)) {
		return p, fmt.Errorf("parse CA pin: want %q and 64 hex digits, as the controller prints it", pinPrefix)
	}
	if _, err := hex.Decode(p[:], []byte(digits)); err != nil {
		return p, fmt.Errorf("parse CA pin: %w", err)
	}
	return p, nil
}

// KeySHA256 is the hex SHA-256 of a public key's SubjectPublicKeyInfo
// (RFC 5280 section 4.1.2.7): the name of a key in records and logs.
func KeySHA256(pub crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(pub)
	if err != nil {
		return "", fmt.Errorf("encode public key: %w", err)
	}
	sum := sha256.Sum256(der)
	return hex.EncodeToString(sum[:]), nil
}
