// Package state keeps what the cluster gave this node, through power cuts and
// restarts: it finds the state partition, holds the config there in two copies,
// and opens it with the TPM.
package state

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"reveille/tpm"
)

// Phase is how far the node's enrolment got.
type Phase string

const (
	// Enrolling: the node has a key, and may have asked the cluster with it.
	// Repeating the request with the same key is safe, with another it is not.
	Enrolling Phase = "enrolling"
	// Enrolled: the cluster's grant is stored.
	Enrolled Phase = "enrolled"
)

// Secret holds bytes that belong nowhere but in the sealed file. It refuses
// every way into a log, an error or a document.
type Secret []byte

const redacted = "[secret]"

// String implements fmt.Stringer.
func (Secret) String() string { return redacted }

// GoString implements fmt.GoStringer, for %#v.
func (Secret) GoString() string { return redacted }

// Format implements fmt.Formatter: %x and %d would print the bytes.
func (Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(redacted)) }

// LogValue implements slog.LogValuer.
func (Secret) LogValue() slog.Value { return slog.StringValue(redacted) }

// MarshalJSON refuses.
func (Secret) MarshalJSON() ([]byte, error) { return nil, errors.New("marshal secret: refused") }

// MarshalText refuses, for YAML and the rest.
func (Secret) MarshalText() ([]byte, error) { return nil, errors.New("marshal secret: refused") }

// Config is the node's identity and what it needs to join again.
type Config struct {
	Phase    Phase  `json:"phase"`
	NodeName string `json:"nodeName"`
	// Key is the node's private key, PKCS #8 DER.
	Key Secret `json:"-"`

	// The rest comes with the grant and is empty while Enrolling.
	NodeID             string    `json:"nodeId,omitempty"`
	ClusterID          string    `json:"clusterId,omitempty"`
	TPMMode            tpm.Mode  `json:"tpmMode,omitempty"`            // required or disabled
	Certificate        []byte    `json:"certificate,omitempty"`        // DER
	CA                 []byte    `json:"ca,omitempty"`                 // DER
	Directory          []byte    `json:"directory,omitempty"`          // the exact signed bytes
	DirectorySignature []byte    `json:"directorySignature,omitempty"` // ASN.1 DER
	Services           Secret    `json:"-"`                            // what the cluster wants run, packed; has secrets
	ClusterTime        time.Time `json:"clusterTime,omitzero"`         // last known; the clock never goes before it
}

// wireConfig is the one place where secrets are written: the sealed body.
type wireConfig struct {
	Config
	Key      []byte `json:"key"`
	Services []byte `json:"services,omitempty"`
}

func wire(c Config) wireConfig { return wireConfig{c, c.Key, c.Services} }

// config puts the secrets where they belong.
func (w wireConfig) config() Config {
	w.Config.Key, w.Config.Services = w.Key, w.Services
	return w.Config
}

func (c Config) encode() ([]byte, error) {
	if err := c.check(); err != nil {
		return nil, err
	}
	b, err := json.Marshal(wire(c))
	if err != nil {
		return nil, fmt.Errorf("encode config: %w", err)
	}
	return b, nil
}

// decodeConfig reads a body whose envelope was whole. A field that this release
// does not know would be lost at the next write: Newer, not ignored.
func decodeConfig(b []byte) (Config, error) {
	var w wireConfig
	dec := json.NewDecoder(bytes.NewReader(b))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&w); err != nil {
		return Config{}, &tpm.Error{Outcome: tpm.Newer, Detail: "config has content unknown to this release", Err: err}
	}
	c := w.config()
	if err := c.check(); err != nil {
		return Config{}, &tpm.Error{Outcome: tpm.Corrupt, Err: err}
	}
	return c, nil
}

// check refuses what no boot could use.
func (c Config) check() error {
	switch {
	case len(c.Key) == 0:
		return errors.New("check config: no private key")
	case c.Phase == Enrolling:
		return nil
	case c.Phase != Enrolled:
		return fmt.Errorf("check config: phase %q", c.Phase)
	case c.TPMMode != tpm.Required && c.TPMMode != tpm.Disabled:
		return fmt.Errorf("check config: TPM mode %q of an enrolled node", c.TPMMode)
	case len(c.Certificate) == 0 || len(c.CA) == 0:
		return errors.New("check config: enrolled without certificate or CA")
	case len(c.Directory) == 0 || len(c.DirectorySignature) == 0:
		return errors.New("check config: empty directory")
	}
	return nil
}
