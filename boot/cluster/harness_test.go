package cluster

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"connectrpc.com/connect"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/clusterv1/clusterv1connect"
	"reveille/boot/cluster/dial"
	"reveille/boot/cluster/operator"
	"reveille/boot/identity"
)

// running is a controller in this process, reached over real TLS on loopback.
type running struct {
	t        *testing.T
	addr     string
	pin      identity.Pin
	dir      string
	operator clusterv1connect.OperatorServiceClient
	context  *operator.Context
	stop     func() // and wait; again is harmless
}

// startController runs a controller until the test ends or stop is called.
func startController(t *testing.T, cfg Config) *running {
	t.Helper()
	if cfg.DataDir == "" {
		cfg.DataDir = t.TempDir()
	}
	if cfg.Name == "" {
		cfg.Name = "a"
	}
	cfg.Listen, cfg.Log = "127.0.0.1:0", slog.New(slog.NewTextHandler(testWriter{t}, nil))
	ready, ended := make(chan Ready, 1), make(chan struct{})
	cfg.Ready = func(r Ready) { ready <- r }
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		defer close(ended)
		if err := Run(ctx, cfg); err != nil {
			t.Errorf("run controller: %v", err)
		}
	}()
	c := &running{t: t, dir: cfg.DataDir, stop: func() { cancel(); <-ended }}
	t.Cleanup(c.stop)
	select {
	case r := <-ready:
		c.addr, c.pin = r.Listen, r.CA
	case <-ended:
		t.FailNow()
	case <-time.After(30 * time.Second):
		t.Fatal("the controller does not get ready")
	}
	var err error
	if c.context, err = operator.Load(filepath.Join(cfg.DataDir, "operator.yaml")); err != nil {
		t.Fatal(err)
	}
	c.callAsOperator()
	return c
}

// callAsOperator is context.Client with connections that end before the
// controller does: an idle one costs its shutdown a second.
func (c *running) callAsOperator() {
	cert := identity.Certificate(c.context.Certificate, c.context.CA, c.context.Key)
	cfg := identity.ClientTLS(c.context.CA, cert, identity.Peer{Role: identity.RoleController}, nil)
	c.operator = clusterv1connect.NewOperatorServiceClient(c.client(cfg), dial.BaseURL)
}

// testWriter puts a controller's log beside a failing test's.
type testWriter struct{ t *testing.T }

func (w testWriter) Write(p []byte) (int, error) {
	w.t.Logf("%s", p[:len(p)-1])
	return len(p), nil
}

func (c *running) ticket(req *clusterv1.CreateTicketRequest) string {
	c.t.Helper()
	resp, err := c.operator.CreateTicket(c.t.Context(), req)
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.GetTicket()
}

// client is an HTTP client of the controller with a TLS configuration.
func (c *running) client(cfg *tls.Config) *http.Client {
	client := dial.HTTPClient([]string{c.addr}, cfg)
	c.t.Cleanup(client.CloseIdleConnections)
	return client
}

func (c *running) enrolment() clusterv1connect.EnrolmentServiceClient {
	return clusterv1connect.NewEnrolmentServiceClient(c.client(identity.PinnedClientTLS(c.pin, nil)), dial.BaseURL)
}

func (c *running) membership(cert tls.Certificate) clusterv1connect.MembershipServiceClient {
	want := identity.Peer{Role: identity.RoleController}
	return clusterv1connect.NewMembershipServiceClient(c.client(identity.ClientTLS(c.context.CA, cert, want, nil)), dial.BaseURL)
}

func (c *running) show(name string) *clusterv1.Node {
	c.t.Helper()
	resp, err := c.operator.GetNode(c.t.Context(), &clusterv1.GetNodeRequest{Name: name})
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.GetNode()
}

// node is a machine: a key that it keeps, and a name.
type node struct {
	name  string
	key   *identity.Key
	grant *identity.Grant
}

func newNodeKey(t *testing.T, name string) *node {
	t.Helper()
	key, err := identity.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return &node{name: name, key: key}
}

func (n *node) request(t *testing.T, ticket string) *clusterv1.EnrolRequest {
	t.Helper()
	csr, err := identity.NewCSR(n.key, n.name)
	if err != nil {
		t.Fatal(err)
	}
	return &clusterv1.EnrolRequest{Ticket: ticket, Name: n.name, Csr: csr,
		TpmMode: clusterv1.TpmMode_TPM_MODE_PREFERRED, TpmPresent: true, BootId: "b0"}
}

// enrolled is a new node that has enrolled with c.
func enrolled(c *running, name string) *node {
	c.t.Helper()
	n := newNodeKey(c.t, name)
	resp, err := c.enrolment().Enrol(c.t.Context(), n.request(c.t, c.ticket(&clusterv1.CreateTicketRequest{})))
	if err != nil {
		c.t.Fatal(err)
	}
	n.accept(c, resp)
	return n
}

func (n *node) accept(c *running, resp *clusterv1.EnrolResponse) {
	c.t.Helper()
	var err error
	if n.grant, err = identity.ParseGrant(resp, c.pin, n.name, n.key.Public()); err != nil {
		c.t.Fatal(err)
	}
}

func (n *node) membership(c *running) clusterv1connect.MembershipServiceClient {
	return c.membership(n.grant.TLS(n.key))
}

func (n *node) join(c *running, boot string, st *clusterv1.NodeStatus) *clusterv1.JoinResponse {
	c.t.Helper()
	resp, err := n.membership(c).Join(c.t.Context(), &clusterv1.JoinRequest{BootId: boot, BuildId: "test", Status: st})
	if err != nil {
		c.t.Fatal(err)
	}
	return resp
}

// wantRefusal checks kind and code, and that an operator learns what to do.
func wantRefusal(t *testing.T, err error, code connect.Code, kind clusterv1.RefusalKind) {
	t.Helper()
	r := identity.RefusalOf(err)
	if connect.CodeOf(err) != code || r.GetKind() != kind || r.GetMessage() == "" || r.GetRemedy() == "" {
		t.Errorf("got error %v with refusal %v, want %v %v", err, r, code, kind)
	}
}

func wantCode(t *testing.T, err error, code connect.Code) {
	t.Helper()
	if err == nil || connect.CodeOf(err) != code {
		t.Errorf("got error %v, want %v", err, code)
	}
}

// otherCA is a certificate that another cluster gave.
func otherCA(t *testing.T, role identity.Role, name string) (tls.Certificate, *x509.Certificate) {
	t.Helper()
	a, err := identity.NewAuthority("other", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	key, err := identity.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	cert, err := a.Issue(role, name, key.Public(), time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return identity.Certificate(cert, a.Certificate, key), a.Certificate
}

// TestMain lets a test run a controller in a process of its own, to kill it.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childDir); dir != "" {
		os.Exit(childMain(dir))
	}
	os.Exit(m.Run())
}
