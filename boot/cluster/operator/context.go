// Package operator is the operator's end of a cluster: the context file that
// says where it is and who asks, the client made from it, and how its answers
// look on a terminal, in JSON and in YAML.
package operator

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"go.yaml.in/yaml/v3"

	"reveille/boot/cluster/clusterv1/clusterv1connect"
	"reveille/boot/cluster/dial"
	"reveille/boot/identity"
)

// Context is an operator context file. Its holder may do everything to the
// cluster, so it refuses to be printed; Write is the only way out.
type Context struct {
	Endpoints   []string // host:port of controllers, tried in order
	CA          *x509.Certificate
	Certificate *x509.Certificate
	Key         *identity.Key
}

// LogValue refuses.
func (c *Context) LogValue() slog.Value { return slog.StringValue("[operator context]") }

// file is Context on disk. The field names are stable.
type file struct {
	Version     int      `yaml:"version"`
	Endpoints   []string `yaml:"endpoints"`
	CA          string   `yaml:"ca"`
	Certificate string   `yaml:"certificate"`
	Key         string   `yaml:"key"`
}

const (
	fileVersion = 1
	certBlock   = "CERTIFICATE"
	keyBlock    = "PRIVATE KEY"
	maxFile     = 1 << 20 // a context has some 2 KiB
)

// Write puts the context into a file that only its owner may read: whole or
// not at all, and on disk when it returns.
func (c *Context) Write(path string) error {
	key, err := c.Key.Marshal()
	if err != nil {
		return fmt.Errorf("write operator context: %w", err)
	}
	data, err := yaml.Marshal(file{
		Version:     fileVersion,
		Endpoints:   c.Endpoints,
		CA:          encode(certBlock, c.CA.Raw),
		Certificate: encode(certBlock, c.Certificate.Raw),
		Key:         encode(keyBlock, key),
	})
	if err != nil {
		return fmt.Errorf("write operator context: %w", err)
	}
	if err := writeWhole(path, data); err != nil {
		return fmt.Errorf("write operator context: %w", err)
	}
	return nil
}

func encode(block string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: block, Bytes: der}))
}

func writeWhole(path string, data []byte) (err error) {
	f, err := os.CreateTemp(filepath.Dir(path), ".operator-*") // made with mode 0600
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(f.Name())
		}
	}()
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// Load reads a context file.
func Load(path string) (*Context, error) {
	if path == "" {
		return nil, errors.New("load operator context: none given; use --context FILE or REVEILLE_CONTEXT (the controller writes operator.yaml into its --data directory)")
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("load operator context: %w", err)
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("load operator context %s: is larger than any context", path)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("load operator context: %w", err)
	}
	c, err := parse(data)
	if err == nil {
		err = c.checkDates(time.Now())
	}
	if err != nil {
		return nil, fmt.Errorf("load operator context %s: %w", path, err)
	}
	return c, nil
}

// checkDates finds an expired context here, where it can be said: TLS 1.3
// tells a client of it only by a broken connection.
func (c *Context) checkDates(now time.Time) error {
	if now.Before(c.Certificate.NotAfter) && now.After(c.Certificate.NotBefore) {
		return nil
	}
	err := &identity.DateError{Subject: "the operator", Now: now, NotBefore: c.Certificate.NotBefore, NotAfter: c.Certificate.NotAfter}
	return fmt.Errorf("%w; a controller writes a new context at every start", err)
}

func parse(data []byte) (*Context, error) {
	var f file
	d := yaml.NewDecoder(bytes.NewReader(data))
	d.KnownFields(true)
	if err := d.Decode(&f); err != nil {
		return nil, errors.New("is not an operator context (YAML with version, endpoints, ca, certificate, key)") // the cause could quote the key
	}
	if f.Version != fileVersion {
		return nil, fmt.Errorf("has version %d, this program reads %d", f.Version, fileVersion)
	}
	if len(f.Endpoints) == 0 {
		return nil, errors.New("lists no endpoint")
	}
	for _, e := range f.Endpoints {
		if err := identity.CheckAddress(e); err != nil {
			return nil, err
		}
	}
	c := &Context{Endpoints: f.Endpoints}
	var err error
	if c.CA, err = certificate("ca", f.CA); err != nil {
		return nil, err
	}
	if c.Certificate, err = certificate("certificate", f.Certificate); err != nil {
		return nil, err
	}
	block, _ := pem.Decode([]byte(f.Key))
	if block == nil || block.Type != keyBlock {
		return nil, fmt.Errorf("key: want a PEM block %q", keyBlock)
	}
	if c.Key, err = identity.ParseKey(block.Bytes); err != nil {
		return nil, err
	}
	return c, nil
}

func certificate(field, text string) (*x509.Certificate, error) {
	block, _ := pem.Decode([]byte(text))
	if block == nil || block.Type != certBlock {
		return nil, fmt.Errorf("%s: want a PEM block %q", field, certBlock)
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", field, err)
	}
	return cert, nil
}

// Client calls the cluster's operator service through the first controller
// that answers.
func (c *Context) Client() clusterv1connect.OperatorServiceClient {
	return clusterv1connect.NewOperatorServiceClient(dial.HTTPClient(c.Endpoints, c.tls()), dial.BaseURL)
}

func (c *Context) tls() *tls.Config {
	cert := identity.Certificate(c.Certificate, c.CA, c.Key)
	return identity.ClientTLS(c.CA, cert, identity.Peer{Role: identity.RoleController}, identity.SystemClock)
}
