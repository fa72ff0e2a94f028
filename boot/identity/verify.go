package identity

import (
	"crypto/x509"
	"errors"
	"fmt"
	"time"
)

// Clock tells the time, and whether it is known. While it is not (a node
// without a battery, before its first answer from a controller), chain, pin
// and role are still checked, but validity dates are not. A nil Clock is
// SystemClock.
type Clock func() (now time.Time, known bool)

// SystemClock is the local clock, trusted.
func SystemClock() (time.Time, bool) { return time.Now(), true }

// unknownTime is a Clock that does not know.
func unknownTime() (time.Time, bool) { return time.Time{}, false }

// DateError is a certificate that is not valid at the local time. Either may
// be the wrong one, so it shows both.
type DateError struct {
	Subject             string
	Now                 time.Time
	NotBefore, NotAfter time.Time
}

func (e *DateError) Error() string {
	const form = time.RFC3339
	now := e.Now.UTC().Format(form)
	if e.Now.Before(e.NotBefore) {
		return fmt.Sprintf("certificate of %s is not valid before %s, local time is %s: check the clock",
			e.Subject, e.NotBefore.UTC().Format(form), now)
	}
	return fmt.Sprintf("certificate of %s expired at %s, local time is %s: check the clock",
		e.Subject, e.NotAfter.UTC().Format(form), now)
}

// Errors of verification that a caller may want to tell apart.
var (
	// ErrPin: no certificate in the chain has the pinned SHA-256; this is
	// another cluster, or the pin is mistyped.
	ErrPin = errors.New("CA is not the one that cluster.ca pins")
	// ErrIdentity: a certificate of our CA, but not of the peer we want.
	ErrIdentity = errors.New("certificate is not of the wanted peer")
)

// verifyChain checks that chain[0] was issued by ca for the given use and is
// what want asks for.
func verifyChain(chain []*x509.Certificate, ca *x509.Certificate, want Peer, use x509.ExtKeyUsage, clock Clock) error {
	if len(chain) == 0 {
		return errors.New("verify peer: no certificate presented")
	}
	leaf := chain[0]
	opts := x509.VerifyOptions{Roots: x509.NewCertPool(), CurrentTime: verifyTime(leaf, ca, clock), KeyUsages: []x509.ExtKeyUsage{use}}
	opts.Roots.AddCert(ca)
	if _, err := leaf.Verify(opts); err != nil {
		return fmt.Errorf("verify peer: %w", withDates(err, opts.CurrentTime))
	}
	peer, err := PeerOf(leaf)
	if err != nil {
		return fmt.Errorf("verify peer: %w: %w", ErrIdentity, err)
	}
	if want.KeySHA256 != "" && want.KeySHA256 != peer.KeySHA256 {
		return fmt.Errorf("verify peer: %w: it is for another key than that of %s", ErrIdentity, want)
	}
	if !peer.matches(want) {
		return fmt.Errorf("verify peer: %w: got %s, want %s", ErrIdentity, peer.URI(), want)
	}
	return nil
}

// verifyTime is the time to verify at: while the clock is unknown, a moment at
// which both certificates are valid if such a moment exists.
func verifyTime(leaf, ca *x509.Certificate, clock Clock) time.Time {
	if clock == nil {
		clock = SystemClock
	}
	if now, known := clock(); known {
		return now
	}
	if leaf.NotBefore.After(ca.NotBefore) {
		return leaf.NotBefore
	}
	return ca.NotBefore
}

// withDates replaces the library's date error, whose subject is missing and
// whose times come in one of three forms.
func withDates(err error, now time.Time) error {
	var invalid x509.CertificateInvalidError
	if !errors.As(err, &invalid) || invalid.Reason != x509.Expired || invalid.Cert == nil {
		return err
	}
	subject := invalid.Cert.Subject.CommonName
	if peer, err := PeerOf(invalid.Cert); err == nil {
		subject = peer.String()
	}
	return &DateError{Subject: subject, Now: now, NotBefore: invalid.Cert.NotBefore, NotAfter: invalid.Cert.NotAfter}
}
