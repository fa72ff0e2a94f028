package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"

	"google.golang.org/protobuf/proto"

	"reveille/boot/cluster/clusterv1"
)

// What can be wrong with a directory. Each means: keep the last good one.
var (
	// ErrDirectoryEmpty: there is none, or it lists no controller. It never
	// means that there is no cluster.
	ErrDirectoryEmpty = errors.New("directory is empty")
	// ErrDirectoryAddresses: controllers, but not one address to dial.
	ErrDirectoryAddresses = errors.New("directory has no valid address")
	// ErrDirectorySignature: not signed by our CA, or for another CA.
	ErrDirectorySignature = errors.New("directory is not signed by our CA")
)

// The label keeps a directory's signature from meaning anything else that the
// CA's key signs (certificates start with an ASN.1 tag, never with this).
const directoryLabel = "reveille directory v1\x00"

// Far above any real cluster; a bound, so that a signed mistake cannot fill a
// node's memory or its dial queue.
const (
	maxControllers = 64
	maxAddresses   = 16 // of one controller
)

func directoryDigest(directory []byte) []byte {
	sum := sha256.Sum256(append([]byte(directoryLabel), directory...))
	return sum[:]
}

// SignDirectory signs dir with the CA's key.
func SignDirectory(dir *clusterv1.Directory, key crypto.Signer) (*clusterv1.SignedDirectory, error) {
	data, err := proto.MarshalOptions{Deterministic: true}.Marshal(dir)
	if err != nil {
		return nil, fmt.Errorf("encode directory: %w", err)
	}
	sig, err := key.Sign(rand.Reader, directoryDigest(data), crypto.SHA256)
	if err != nil {
		return nil, fmt.Errorf("sign directory: %w", err)
	}
	return &clusterv1.SignedDirectory{Directory: data, Signature: sig}, nil
}

// VerifyDirectory returns the directory if ca signed it and it lists at least
// one address that can be dialled. Invalid addresses, and controllers left
// without one, are dropped from the result. Errors: ErrDirectoryEmpty,
// ErrDirectoryAddresses, ErrDirectorySignature.
func VerifyDirectory(signed *clusterv1.SignedDirectory, ca *x509.Certificate) (*clusterv1.Directory, error) {
	dir, err := verifyDirectory(signed, ca)
	if err != nil {
		return nil, fmt.Errorf("verify directory: %w", err)
	}
	return dir, nil
}

func verifyDirectory(signed *clusterv1.SignedDirectory, ca *x509.Certificate) (*clusterv1.Directory, error) {
	if len(signed.GetDirectory()) == 0 {
		return nil, ErrDirectoryEmpty
	}
	pub, ok := ca.PublicKey.(*ecdsa.PublicKey)
	if !ok || !ecdsa.VerifyASN1(pub, directoryDigest(signed.GetDirectory()), signed.GetSignature()) {
		return nil, ErrDirectorySignature
	}
	dir := new(clusterv1.Directory)
	if err := proto.Unmarshal(signed.GetDirectory(), dir); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDirectorySignature, err) // the CA signs nothing else under the label
	}
	pin := PinOf(ca)
	if dir.GetCaSha256() != hex.EncodeToString(pin[:]) {
		return nil, fmt.Errorf("%w: it is of another CA", ErrDirectorySignature)
	}
	if len(dir.GetControllers()) == 0 {
		return nil, ErrDirectoryEmpty
	}
	return dir, dropInvalid(dir)
}

func dropInvalid(dir *clusterv1.Directory) error {
	var kept []*clusterv1.Controller
	var first error
	for _, c := range dir.GetControllers() {
		var valid []string
		for _, addr := range c.GetAddresses() {
			if err := CheckAddress(addr); err == nil {
				valid = append(valid, addr)
			} else if first == nil {
				first = err
			}
		}
		c.Addresses = valid[:min(len(valid), maxAddresses)]
		if len(valid) > 0 {
			kept = append(kept, c)
		}
	}
	dir.Controllers = kept[:min(len(kept), maxControllers)]
	if len(kept) > 0 {
		return nil
	}
	if first == nil {
		return ErrDirectoryAddresses
	}
	return fmt.Errorf("%w: %w", ErrDirectoryAddresses, first)
}

// CheckAddress reports why addr cannot be dialled: it must be host:port with a
// port of 1 to 65535 and a host that is an IP address (v6 in brackets; not the
// unspecified one) or a DNS name.
func CheckAddress(addr string) error {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return fmt.Errorf("check address %q: want host:port, IPv6 in brackets", addr)
	}
	if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
		return fmt.Errorf("check address %q: want a port of 1 to 65535", addr)
	}
	if ip, err := netip.ParseAddr(host); err == nil {
		if ip.IsUnspecified() || ip.IsMulticast() || ip.Zone() != "" { // a zone means something on one machine only
			return fmt.Errorf("check address %q: is no address that others can dial", addr)
		}
		return nil
	}
	return checkHost(addr, host)
}

func checkHost(addr, host string) error {
	labels := strings.Split(strings.TrimSuffix(strings.ToLower(host), "."), ".")
	digits := strings.Trim(labels[len(labels)-1], "0123456789") == ""
	if len(host) > 253 || digits { // a name cannot end like 10.0.0.300 (RFC 3696 section 2)
		return fmt.Errorf("check address %q: host is neither an IP address nor a DNS name", addr)
	}
	for _, l := range labels {
		if !label.MatchString(l) {
			return fmt.Errorf("check address %q: host is neither an IP address nor a DNS name", addr)
		}
	}
	return nil
}
