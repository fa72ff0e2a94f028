// Package dial makes HTTP clients for a peer with several addresses, any of
// which may be dead: an operator's controllers, a node's interfaces.
package dial

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"
)

// BaseURL is what to give a Connect client: the host in it is not used, the
// addresses are.
const BaseURL = "https://reveille"

// Each address gets this long for TCP and TLS together: three round trips,
// with one lost packet's retransmission (1 s) and a slow machine's signature.
const attempt = 3 * time.Second

// quiet is how long a stream may be silent before its peer is asked whether it
// is there, and how long the answer may take: who follows a node that lost its
// power must not wait for ever.
const quiet = 15 * time.Second

// HTTPClient returns a client whose connections go to the first of the
// addresses (host:port) that completes the handshake of cfg. They are tried in
// order; the error names each with its cause. The caller closes idle
// connections when done.
func HTTPClient(addrs []string, cfg *tls.Config) *http.Client {
	return &http.Client{Transport: &http.Transport{
		ForceAttemptHTTP2: true,
		IdleConnTimeout:   30 * time.Second,
		HTTP2:             &http.HTTP2Config{SendPingTimeout: quiet, PingTimeout: quiet},
		DialTLSContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return first(ctx, network, addrs, cfg)
		},
	}}
}

func first(ctx context.Context, network string, addrs []string, cfg *tls.Config) (net.Conn, error) {
	if len(addrs) == 0 {
		return nil, errors.New("dial: no address known")
	}
	var causes failures
	for _, addr := range addrs {
		conn, err := one(ctx, network, addr, cfg)
		if err == nil {
			return conn, nil
		}
		causes = append(causes, fmt.Errorf("dial %s: %w", addr, err))
		if ctx.Err() != nil {
			break
		}
	}
	return nil, causes
}

// failures are the causes of all addresses, as one line.
type failures []error

func (f failures) Error() string {
	texts := make([]string, len(f))
	for i, err := range f {
		texts[i] = err.Error()
	}
	return strings.Join(texts, "; ")
}

func (f failures) Unwrap() []error { return f }

func one(ctx context.Context, network, addr string, cfg *tls.Config) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, attempt)
	defer cancel()
	d := tls.Dialer{Config: cfg}
	conn, err := d.DialContext(ctx, network, addr)
	var op *net.OpError
	if errors.As(err, &op) {
		err = op.Err // without the address, which first names
	}
	return conn, err
}
