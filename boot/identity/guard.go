package identity

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"connectrpc.com/connect"
)

type peerKey struct{}

// WithPeer returns a context that carries the peer.
func WithPeer(ctx context.Context, p Peer) context.Context {
	return context.WithValue(ctx, peerKey{}, p)
}

// PeerFrom is the verified peer of the request that ctx belongs to; false when
// it showed no certificate.
func PeerFrom(ctx context.Context) (Peer, bool) {
	p, ok := ctx.Value(peerKey{}).(Peer)
	return p, ok
}

// Guard admits only peers with one of the roles (none given: anybody), and
// tells the handlers who it is (PeerFrom). It stands before the decoding, so
// strangers cannot make us parse. It needs a listener with ServerTLS.
//
// Refusals are Connect errors: Unauthenticated without a certificate,
// PermissionDenied with one of another role.
func Guard(next http.Handler, roles ...Role) http.Handler {
	refuse := connect.NewErrorWriter()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, err := admit(r, roles)
		if err != nil {
			_ = refuse.Write(w, r, err) // the peer is gone when this fails
			return
		}
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

func admit(r *http.Request, roles []Role) (context.Context, error) {
	ctx := r.Context()
	if r.TLS == nil || len(r.TLS.PeerCertificates) == 0 {
		if len(roles) == 0 {
			return ctx, nil
		}
		return nil, connect.NewError(connect.CodeUnauthenticated,
			fmt.Errorf("call %s: needs a client certificate with role %v", r.URL.Path, roles))
	}
	peer, err := PeerOf(r.TLS.PeerCertificates[0])
	if err != nil { // ServerTLS lets no such certificate in
		return nil, connect.NewError(connect.CodeUnauthenticated, errors.New("read identity of client certificate"))
	}
	if len(roles) > 0 && !slices.Contains(roles, peer.Role) {
		return nil, connect.NewError(connect.CodePermissionDenied,
			fmt.Errorf("call %s: %s may not, needs role %v", r.URL.Path, peer, roles))
	}
	return WithPeer(ctx, peer), nil
}
