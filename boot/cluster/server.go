package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	stdlog "log"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/time/rate"

	"reveille/boot/cluster/clusterv1/clusterv1connect"
	"reveille/boot/identity"
)

const (
	// The largest honest request is a join with a full status: some 10 KiB.
	maxRequest = 128 << 10
	// One request, reading its body included. A node gives up earlier.
	requestTimeout = 30 * time.Second
)

// services are the three Connect services with who may call them.
type services struct {
	enrolment  *enrolmentService
	membership *membershipService
	operator   *operatorService
	log        *slog.Logger
}

func (s *services) handler() http.Handler {
	mux := http.NewServeMux()
	opts := []connect.HandlerOption{
		connect.WithConditionalHandlerOptions(limitRequest),
		connect.WithInterceptors(connect.UnaryInterceptorFunc(s.answer)),
		connect.WithRecover(s.recovered),
	}
	mount := func(path string, h http.Handler, roles ...identity.Role) {
		mux.Handle(path, withRemote(withDeadline(identity.Guard(h, roles...))))
	}
	path, h := clusterv1connect.NewEnrolmentServiceHandler(s.enrolment, opts...)
	mount(path, h)
	path, h = clusterv1connect.NewMembershipServiceHandler(s.membership, opts...)
	mount(path, h, identity.RoleNode)
	path, h = clusterv1connect.NewOperatorServiceHandler(s.operator, opts...)
	mount(path, h, identity.RoleOperator)
	mount("GET /{$}", http.HandlerFunc(s.operator.servePage), identity.RoleOperator)
	return mux
}

// limitRequest bounds what a caller may make us hold.
func limitRequest(spec connect.Spec) []connect.HandlerOption {
	switch spec.Procedure {
	case clusterv1connect.MembershipServiceUploadBundleProcedure:
		return []connect.HandlerOption{connect.WithReadMaxBytes(maxUpload)}
	case clusterv1connect.OperatorServiceApplyServicesProcedure:
		return []connect.HandlerOption{connect.WithReadMaxBytes(maxApply)}
	}
	return []connect.HandlerOption{connect.WithReadMaxBytes(maxRequest)}
}

// withDeadline bounds a request, except for what may be followed.
func withDeadline(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var end time.Time // none; said too, since HTTP/1.1 connections keep the last request's
		if r.URL.Path != clusterv1connect.OperatorServiceNodeLogsProcedure && r.URL.Path != clusterv1connect.OperatorServiceAttachProcedure {
			end = time.Now().Add(requestTimeout)
			ctx, cancel := context.WithDeadline(r.Context(), end)
			defer cancel()
			r = r.WithContext(ctx)
		}
		rc := http.NewResponseController(w)
		if err := errors.Join(rc.SetReadDeadline(end), rc.SetWriteDeadline(end)); err != nil {
			http.Error(w, "cannot bound this request", http.StatusInternalServerError)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// answer gives every error of a handler its Connect form.
func (s *services) answer(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, req connect.AnyRequest) (connect.AnyResponse, error) {
		resp, err := next(ctx, req)
		if err != nil {
			return nil, storeError(ctx, s.log, req.Spec().Procedure, err)
		}
		return resp, nil
	}
}

// storeError leaves answers as they are. Anything else is trouble of our own,
// mostly the store's: said in full here, to the peer only that it may retry.
func storeError(ctx context.Context, log *slog.Logger, procedure string, err error) error {
	var ce *connect.Error
	if errors.As(err, &ce) {
		return ce
	}
	if errors.Is(ctx.Err(), context.Canceled) { // the peer has left
		return connect.NewError(connect.CodeCanceled, ctx.Err())
	}
	log.Error("request not served, the caller will retry", "procedure", procedure, "caller", caller(ctx), "from", remote(ctx), "cause", err)
	return connect.NewError(connect.CodeUnavailable, errors.New("this controller cannot use its store now; try again, or another controller"))
}

func (s *services) recovered(ctx context.Context, spec connect.Spec, _ http.Header, p any) error {
	s.log.Error("request panicked, serving goes on", "procedure", spec.Procedure, "caller", caller(ctx), "cause", fmt.Sprint(p))
	return connect.NewError(connect.CodeInternal, errors.New("the controller has a fault, see its log"))
}

type remoteKey struct{}

func withRemote(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), remoteKey{}, r.RemoteAddr)))
	})
}

// remote is the address that the request came from, for the log.
func remote(ctx context.Context) string {
	addr, _ := ctx.Value(remoteKey{}).(string)
	return addr
}

// caller is who sent the request, for the log.
func caller(ctx context.Context) string {
	if p, ok := identity.PeerFrom(ctx); ok {
		return p.String()
	}
	return "anybody"
}

func newServer(h http.Handler, cfg *tls.Config, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		TLSConfig:         cfg,
		ReadHeaderTimeout: 10 * time.Second, // and the TLS handshake; a slow node's takes under one
		IdleTimeout:       2 * time.Minute,  // well above the heartbeat interval: nodes keep their connection
		MaxHeaderBytes:    16 << 10,         // ours are under 1 KiB
		ErrorLog:          slogWriter(log),
	}
}

// slogWriter takes what net/http says (failed handshakes mostly), at a rate
// that a port scan cannot fill a disk with.
func slogWriter(log *slog.Logger) *stdlog.Logger {
	return stdlog.New(&limited{log: log, limit: rate.NewLimiter(1, 20)}, "", 0)
}

type limited struct {
	log     *slog.Logger
	limit   *rate.Limiter
	dropped int // log.Logger serialises writes
}

var _ io.Writer = (*limited)(nil)

func (l *limited) Write(line []byte) (int, error) {
	if !l.limit.Allow() {
		l.dropped++
		return len(line), nil
	}
	attrs := []any{"cause", printable(strings.TrimSpace(string(line)), maxReason)}
	if l.dropped > 0 {
		attrs = append(attrs, "notShownBefore", l.dropped)
		l.dropped = 0
	}
	l.log.Warn("connection ended", attrs...)
	return len(line), nil
}
