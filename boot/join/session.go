package join

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
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
	conn      *tls.Conn
	own       *x509.Certificate // what we showed; nil for none
	transport *http.Transport
	http      *http.Client
}

// newSession speaks HTTP over conn, and never over another connection: who to
// talk to next is for a new hunt to find out.
func newSession(conn *tls.Conn, endpoint string, own *x509.Certificate) *session {
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
	return &session{endpoint: endpoint, conn: conn, own: own, transport: transport, http: &http.Client{Transport: transport}}
}

func (s *session) close() {
	s.transport.CloseIdleConnections()
	closeConn(s.conn)
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
	if !connect.IsWireError(err) && ctx.Err() == nil {
		err = s.orAlert(err)
	}
	return &annotated{step, err}
}

// alertWait is for an alert that the kernel has, or is about to get.
const alertWait = 100 * time.Millisecond

// orAlert says what the other side had against us instead of how the
// connection broke. An alert has no words for dates, so ours are added.
func (s *session) orAlert(err error) error {
	s.conn.SetReadDeadline(time.Now().Add(alertWait))
	_, alert := s.conn.Read(make([]byte, 1)) // an alert that HTTP has read comes again
	if !isAlert(alert) {
		return err
	}
	if s.own == nil {
		return alert
	}
	const form = time.RFC3339
	return &annotated{fmt.Sprintf("own certificate, valid from %s to %s, local time %s",
		s.own.NotBefore.UTC().Format(form), s.own.NotAfter.UTC().Format(form), time.Now().UTC().Format(form)), alert}
}
