package join

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"connectrpc.com/connect"

	"reveille/boot/identity"
)

const (
	// callTimeout bounds one RPC: a controller that loses its etcd leader
	// needs some seconds to answer.
	callTimeout = 15 * time.Second
	// maxAnswer bounds what an answer may take of our memory; a directory of
	// the greatest size is some 300 KiB.
	maxAnswer = 1 << 20
	// baseURL has a host only because HTTP wants one: the connection is there
	// already, and identity does not go by names.
	baseURL = "https://controller"
)

// session is one connection to one controller.
type session struct {
	endpoint  string
	conn      net.Conn
	transport *http.Transport
	http      *http.Client
}

// newSession speaks HTTP over conn, and never over another connection: who to
// talk to next is for a new hunt to find out.
func newSession(conn *tls.Conn, endpoint string) *session {
	var used atomic.Bool
	transport := &http.Transport{
		ForceAttemptHTTP2: true,
		DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
			if used.Swap(true) {
				return nil, errClosed
			}
			return conn, nil
		},
	}
	return &session{endpoint: endpoint, conn: conn, transport: transport, http: &http.Client{Transport: transport}}
}

func (s *session) close() {
	s.transport.CloseIdleConnections()
	s.conn.Close()
}

// options are those of every Connect client on a session.
func options() connect.ClientOption { return connect.WithReadMaxBytes(maxAnswer) }

// call runs one RPC in its time limit, and makes a *Refused of a refusal.
func (s *session) call(ctx context.Context, step string, rpc func(context.Context, *session) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, callTimeout, errNoAnswer(callTimeout))
	defer cancel()
	err := orTimeout(ctx, rpc(ctx, s))
	if err == nil {
		return nil
	}
	if r := identity.RefusalOf(err); r != nil {
		return &Refused{Step: step, Endpoint: s.endpoint, Kind: r.GetKind(), Message: plain(r.GetMessage()), Remedy: plain(r.GetRemedy())}
	}
	return &annotated{step, err}
}
