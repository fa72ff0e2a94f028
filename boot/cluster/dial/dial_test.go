package dial

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
	"time"

	"reveille/boot/identity"
)

func TestFirst(t *testing.T) {
	ca, err := identity.NewAuthority("c1", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	client := identity.PinnedClientTLS(identity.PinOf(ca.Certificate), nil)
	node, controller, refused := serve(t, ca, identity.RoleNode), serve(t, ca, identity.RoleController), refusing(t)
	for _, tc := range []struct {
		addrs []string
		want  string // the address reached, or the error
	}{
		{[]string{controller}, controller},
		{[]string{refused, node, controller}, controller},
		{nil, "dial: no address known"},
		{[]string{refused, node}, "dial " + refused + ": connect: connection refused; dial " + node + ": verify peer: certificate is not of the wanted peer: got reveille://c1/node/a, want controller"},
	} {
		conn, err := first(t.Context(), "tcp", tc.addrs, client)
		got := ""
		if err != nil {
			got = err.Error()
		} else {
			got = conn.RemoteAddr().String()
			_ = conn.Close()
		}
		if got != tc.want {
			t.Errorf("%v: got %s, want %s", tc.addrs, got, tc.want)
		}
	}
}

// serve does handshakes as the named role until the test ends.
func serve(t *testing.T, ca *identity.Authority, role identity.Role) string {
	t.Helper()
	key, err := identity.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ca.Issue(role, "a", key.Public(), time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := tls.Listen("tcp", "127.0.0.1:0", identity.ServerTLS(ca.Certificate, identity.Certificate(cert, ca.Certificate, key), nil))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			conn, err := ln.Accept()
			if err != nil {
				return
			}
			_ = conn.(*tls.Conn).Handshake() // the client says what went wrong
			_ = conn.Close()
		}
	}()
	t.Cleanup(func() { _ = ln.Close(); <-done })
	return ln.Addr().String()
}

// refusing is an address that nobody listens on.
func refusing(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

func TestFailuresIsOneLine(t *testing.T) {
	err := failures{net.ErrClosed, net.ErrClosed}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("got %q", err.Error())
	}
}
