// Package nodeapi serves the node's own API: the log, and services to attach to,
// as streams, to operators and to the controllers that relay them.
//
//	err := nodeapi.New(nodeapi.Config{Listen: p.API.Listen, TLS: .., Logs: ..}).Run(ctx)
package nodeapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"reveille/boot/cluster/clusterv1/clusterv1connect"
	"reveille/boot/identity"
)

const (
	// maxStreams bounds the readers of the log: some operators and a relay
	// each, and what a stream costs is a page of records.
	maxStreams = 16
	// maxRequest is far above any LogsRequest.
	maxRequest = 64 << 10
	// retryFirst and retryLast pace the attempts to listen: the address may
	// come late, but within a second of it the API should be there.
	retryFirst = time.Second
	retryLast  = 30 * time.Second
)

// Config is what a Server needs; all of it but Nudge.
type Config struct {
	Listen   string      // host:port; an empty host is every address, of both families
	TLS      *tls.Config // identity.ServerTLS with the node's certificate
	Logs     LogSource
	Services Services
	Nudge    func() // asks for a heartbeat, and does not block; nil: nobody is to be asked
	Log      *slog.Logger
}

// Server serves the API until its context ends, whatever happens to its
// listener.
type Server struct {
	cfg     Config
	handler http.Handler
	streams atomic.Int32
}

// New returns a server that does not listen yet.
func New(cfg Config) *Server {
	s := &Server{cfg: cfg}
	mux := http.NewServeMux()
	mux.Handle(clusterv1connect.NewNodeServiceHandler(s, handlerOptions()))
	s.handler = identity.Guard(mux, identity.RoleOperator, identity.RoleController)
	return s
}

// Run serves until ctx ends, and returns its error. A listener that cannot be
// had or that fails is tried again.
func (s *Server) Run(ctx context.Context) error {
	delay := retryFirst
	for {
		served, err := s.serve(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if served {
			delay = retryFirst
		}
		s.cfg.Log.Warn(fmt.Sprintf("node API is down, next try in %s", delay), "err", err)
		if err := sleep(ctx, delay); err != nil {
			return err
		}
		delay = min(2*delay, retryLast)
	}
}

// serve listens once. It says whether it came so far as to serve.
func (s *Server) serve(ctx context.Context) (bool, error) {
	var lc net.ListenConfig
	l, err := lc.Listen(ctx, "tcp", s.cfg.Listen)
	if err != nil {
		return false, fmt.Errorf("listen on %s: %w", s.cfg.Listen, err)
	}
	s.cfg.Log.Info("node API is up", "listen", l.Addr())
	return true, s.Serve(ctx, l)
}

// Serve serves on l until ctx ends or l fails, and closes it.
func (s *Server) Serve(ctx context.Context, l net.Listener) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	srv := &http.Server{
		Handler:           s.handler,
		BaseContext:       func(net.Listener) context.Context { return ctx }, // streams end with it
		TLSConfig:         s.cfg.TLS,
		ReadHeaderTimeout: 10 * time.Second, // a handshake and headers on a slow link
		IdleTimeout:       time.Minute,
		MaxHeaderBytes:    maxRequest,
		ErrorLog:          slog.NewLogLogger(s.cfg.Log.Handler(), slog.LevelDebug), // strangers' handshakes
		HTTP2: &http.HTTP2Config{
			MaxConcurrentStreams: maxStreams,
			SendPingTimeout:      15 * time.Second, // a follower that vanished must not keep its stream
			PingTimeout:          15 * time.Second,
			WriteByteTimeout:     30 * time.Second,
		},
	}
	stop := context.AfterFunc(ctx, func() { srv.Close() })
	defer stop()
	defer srv.Close()
	err := srv.ServeTLS(l, "", "")
	if errors.Is(err, http.ErrServerClosed) && ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("serve node API: %w", err)
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
