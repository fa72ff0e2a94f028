package identity

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"io"
	"log/slog"
)

// Key is a P-256 private key (the curve every TPM 2.0 has) that refuses to be
// printed. It is a crypto.Signer, so it fits tls.Certificate.PrivateKey. All
// functions here take any crypto.Signer: a key inside a TPM works the same.
type Key struct{ key *ecdsa.PrivateKey }

// NewKey makes a key. It may wait for the kernel's random generator.
func NewKey() (*Key, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("generate key: %w", err)
	}
	return &Key{key}, nil
}

// ParseKey reads what Marshal wrote.
func ParseKey(pkcs8 []byte) (*Key, error) {
	parsed, err := x509.ParsePKCS8PrivateKey(pkcs8)
	if err != nil {
		return nil, errors.New("parse key: not a PKCS #8 private key") // the cause could quote the key
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || key.Curve != elliptic.P256() {
		return nil, errors.New("parse key: want an ECDSA P-256 key")
	}
	return &Key{key}, nil
}

// Marshal is the key as PKCS #8 DER, for the sealed config. Wipe it after use.
func (k *Key) Marshal() ([]byte, error) {
	der, err := x509.MarshalPKCS8PrivateKey(k.key)
	if err != nil {
		return nil, fmt.Errorf("encode key: %w", err)
	}
	return der, nil
}

// Public implements crypto.Signer.
func (k *Key) Public() crypto.PublicKey { return k.key.Public() }

// Sign implements crypto.Signer.
func (k *Key) Sign(random io.Reader, digest []byte, opts crypto.SignerOpts) ([]byte, error) {
	return k.key.Sign(random, digest, opts)
}

const hidden = "[private key]"

// String refuses: keys do not belong in logs.
func (k *Key) String() string { return hidden }

// Format refuses for every verb: %#v would otherwise reach the fields.
func (k *Key) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, hidden) }

// LogValue refuses.
func (k *Key) LogValue() slog.Value { return slog.StringValue(hidden) }

// MarshalText refuses, and with it every encoder of JSON and YAML.
func (k *Key) MarshalText() ([]byte, error) {
	return nil, errors.New("encode key: refused, use Marshal")
}

// NewCSR is the certificate request (PKCS #10, DER) by which key asks to be
// the node called name.
func NewCSR(key crypto.Signer, name string) ([]byte, error) {
	template := &x509.CertificateRequest{Subject: pkix.Name{CommonName: name}}
	der, err := x509.CreateCertificateRequest(rand.Reader, template, key)
	if err != nil {
		return nil, fmt.Errorf("create certificate request: %w", err)
	}
	return der, nil
}

// ParseCSR returns the key of a request that asks for name, after checking
// that the sender holds it. Only P-256 is accepted. Nothing else of the
// request is used: the CA decides what a certificate says.
func ParseCSR(der []byte, name string) (*ecdsa.PublicKey, error) {
	csr, err := x509.ParseCertificateRequest(der)
	if err != nil {
		return nil, fmt.Errorf("parse certificate request: %w", err)
	}
	if err := csr.CheckSignature(); err != nil {
		return nil, fmt.Errorf("check certificate request: %w", err)
	}
	pub, ok := csr.PublicKey.(*ecdsa.PublicKey)
	if !ok || pub.Curve != elliptic.P256() {
		return nil, errors.New("check certificate request: want an ECDSA P-256 key")
	}
	if csr.Subject.CommonName != name {
		return nil, fmt.Errorf("check certificate request: is for %q, not %q", csr.Subject.CommonName, name)
	}
	return pub, nil
}
