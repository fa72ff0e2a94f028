package join

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/identity"
	"reveille/boot/params"
)

// These tests use the machine's own loopback: real sockets, real errors of the
// kernel, real time.

func listen(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// attempts returns a context that ends after n failed attempts of c.
func attempts(t *testing.T, c *Client, n int) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	c.retries.int64n = func(int64) int64 {
		if c.retries.drawn > n+1 {
			cancel()
		}
		return int64(time.Millisecond)
	}
	return ctx
}

// closedPort is an address nobody listens on.
func closedPort(t *testing.T) string {
	l := listen(t)
	l.Close()
	return l.Addr().String()
}

// eager has no delays: nobody else is there to be spared.
func eager(c *Client) *Client {
	c.retries.int64n = func(int64) int64 { return int64(time.Millisecond) }
	return c
}

func onLoopback(t *testing.T, ctl *controller) (*Client, *logText) {
	t.Helper()
	l := listen(t)
	ctl.serve(t, l)
	c, log := client(t, nil, l.Addr().String())
	return eager(c), log
}

// One endpoint of each kind of fault, a silent one among them, and a good one.
func TestEnrolPastFaultyEndpoints(t *testing.T) {
	ca, stranger := newCA(t), newCA(t)
	good, foreign, plainText, silent := listen(t), listen(t), listen(t), listen(t)
	newController(ca).serve(t, good)
	newController(stranger).serve(t, foreign)
	go func() {
		for {
			c, err := plainText.Accept()
			if err != nil {
				return
			}
			c.Write([]byte("SSH-2.0-OpenSSH_9.2\r\n"))
			c.Close()
		}
	}()
	c, _ := client(t, nil, "name.invalid:7443", closedPort(t), foreign.Addr().String(),
		plainText.Addr().String(), silent.Addr().String(), good.Addr().String())
	ctx, cancel := context.WithTimeout(t.Context(), 8*time.Second) // less than any of our time limits
	defer cancel()
	e := enrolment(t, ca)
	g, err := eager(c).Enrol(ctx, e)
	if err != nil {
		t.Fatal(err)
	}
	if g.NodeID != "id-1" || g.Peer.String() != "node n1" || g.TPMMode != clusterv1.TpmMode_TPM_MODE_REQUIRED || g.ClusterTime.IsZero() {
		t.Errorf("grant %+v", g)
	}
}

// The answer that gets lost is asked for again with the same key.
func TestLostEnrolmentAnswer(t *testing.T) {
	ca := newCA(t)
	ctl := newController(ca)
	ctl.losing = 2
	c, log := onLoopback(t, ctl)
	e := enrolment(t, ca)
	g, err := c.Enrol(t.Context(), e)
	if err != nil {
		t.Fatal(err)
	}
	if len(ctl.grants) != 1 || g.NodeID != "id-1" {
		t.Errorf("%d grants, ours is %s", len(ctl.grants), g.NodeID)
	}
	if got := strings.Join(log.take(), "\n"); !strings.Contains(got, "enrol: ") {
		t.Errorf("log %q", got)
	}
	again, err := c.Enrol(t.Context(), e) // as after a crash of the agent
	if err != nil || !again.Certificate.Equal(g.Certificate) {
		t.Errorf("second enrolment: %v, another certificate", err)
	}
}

// The join that follows an enrolment is not delayed a second time.
func TestJoinFollowsEnrolAtOnce(t *testing.T) {
	ca := newCA(t)
	c, _ := onLoopback(t, newController(ca))
	drawn := 0
	c.retries.int64n = func(int64) int64 { drawn++; return 0 }
	if _, err := c.Enrol(t.Context(), enrolment(t, ca)); err != nil {
		t.Fatal(err)
	}
	for boot, want := range []int{1, 2} { // a join by itself is delayed
		if _, err := c.Join(t.Context(), member(t, ca)); err != nil {
			t.Fatal(err)
		}
		if drawn != want {
			t.Errorf("join %d: %d delays drawn, want %d", boot+1, drawn, want)
		}
	}
}

func TestEnrolWithoutTicket(t *testing.T) {
	ca := newCA(t)
	ctl := newController(ca)
	c, _ := onLoopback(t, ctl)
	e := enrolment(t, ca)
	e.Ticket = params.Secret{}
	if _, err := c.Enrol(t.Context(), e); !errors.Is(err, ErrNoTicket) || len(ctl.booked()) > 0 {
		t.Errorf("got %v", err)
	}
}

func TestRefusalsStop(t *testing.T) {
	for _, kind := range []clusterv1.RefusalKind{
		clusterv1.RefusalKind_REFUSAL_KIND_TICKET_EXPIRED,
		clusterv1.RefusalKind_REFUSAL_KIND_TICKET_UNKNOWN,
		clusterv1.RefusalKind_REFUSAL_KIND_NAME_TAKEN,
	} {
		t.Run(kind.String(), func(t *testing.T) {
			ca := newCA(t)
			ctl := newController(ca)
			ctl.fail("enrol", identity.Refuse(connect.CodePermissionDenied, kind, "no", "do this"))
			c, _ := onLoopback(t, ctl)
			_, err := c.Enrol(t.Context(), enrolment(t, ca))
			var refused *Refused
			if !errors.As(err, &refused) || refused.Kind != kind || refused.Remedy != "do this" {
				t.Fatalf("got %v", err)
			}
			if got := ctl.booked(); len(got) != 1 {
				t.Errorf("asked %d times", len(got))
			}
		})
	}
}

// The same codes without a typed refusal (a proxy, a half-started controller)
// are retried, and each is shown.
func TestUntypedErrorsAreRetried(t *testing.T) {
	for _, code := range []connect.Code{
		connect.CodeUnauthenticated, connect.CodePermissionDenied, connect.CodeNotFound, connect.CodeInternal,
		connect.CodeUnavailable, connect.CodeInvalidArgument, connect.CodeResourceExhausted,
	} {
		t.Run(code.String(), func(t *testing.T) {
			ca := newCA(t)
			ctl := newController(ca)
			ctl.fail("enrol", connect.NewError(code, errors.New("not now")))
			c, log := onLoopback(t, ctl)
			c.retries.int64n = func(int64) int64 {
				if c.retries.drawn > 3 {
					ctl.fail("enrol", nil)
				}
				return int64(time.Millisecond)
			}
			if _, err := c.Enrol(t.Context(), enrolment(t, ca)); err != nil {
				t.Fatal(err)
			}
			want := "enrol: " + code.String() + ": not now; next try in"
			if got := log.take(); len(got) != 1 || !strings.Contains(got[0], want) {
				t.Errorf("log %q, want one line with %q", got, want)
			}
		})
	}
}

// A grant that is not ours is no grant, whoever signed it.
func TestBadGrantIsNotTaken(t *testing.T) {
	ca := newCA(t)
	ctl := newController(ca)
	c, log := onLoopback(t, ctl)
	e := enrolment(t, ca)
	key, err := identity.KeySHA256(e.Key.Public())
	if err != nil {
		t.Fatal(err)
	}
	other := enrolment(t, ca)
	leaf, err := ca.Issue(identity.RoleNode, "n1", other.Key.Public(), time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	ctl.grants["t-1 "+key] = &clusterv1.EnrolResponse{
		NodeId: "id-9", ClusterId: ca.ClusterID, Certificate: leaf.Raw, CaCertificate: ca.Certificate.Raw,
		Directory: ctl.dir, TpmMode: clusterv1.TpmMode_TPM_MODE_REQUIRED,
	}
	ctx := attempts(t, c, 1)
	if _, err := c.Enrol(ctx, e); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	want := "enrol: check grant: check certificate of node n1: it is for another key"
	if got := log.take(); len(got) == 0 || !strings.Contains(got[0], want) {
		t.Errorf("log %q, want %q", got, want)
	}
}

// The controllers' verdict on our certificate arrives as a bare TLS alert.
func TestRejectedCertificateShowsDates(t *testing.T) {
	ca := newCA(t)
	ctl := newController(ca)
	c, log := onLoopback(t, ctl)
	m := member(t, ca)
	key, err := identity.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	issued := time.Now().Add(-48 * time.Hour).UTC()
	leaf, err := ca.Issue(identity.RoleNode, "n1", key.Public(), issued, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	m.Certificate = identity.Certificate(leaf, ca.Certificate, key)
	ctx := attempts(t, c, 1)
	c.Join(ctx, m)
	got := log.take()
	for _, want := range []string{
		"join: own certificate, valid from ", " to " + issued.Add(time.Hour).Format(time.RFC3339) + ", local time ",
		": the other side says: tls: ",
	} {
		if len(got) == 0 || !strings.Contains(got[0], want) {
			t.Errorf("log %q, want %q", got, want)
		}
	}
}

// A foreign certificate of the same CA: an operator is no controller.
func TestOnlyAControllerIsBelieved(t *testing.T) {
	ca := newCA(t)
	key, err := identity.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Issue(identity.RoleNode, "evil", key.Public(), time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	l := listen(t)
	ctl := newController(ca)
	serveTLS(t, l, ctl, identity.ServerTLS(ca.Certificate, identity.Certificate(leaf, ca.Certificate, key), nil))
	c, log := client(t, nil, l.Addr().String())
	ctx := attempts(t, c, 1)
	c.Enrol(ctx, enrolment(t, ca))
	if got := ctl.booked(); len(got) > 0 {
		t.Errorf("it got the ticket: %q", got)
	}
	if got := log.take(); len(got) == 0 || !strings.Contains(got[0], "certificate is not of the wanted peer") {
		t.Errorf("log %q", got)
	}
}

// Secrets stay out of the log, whatever goes wrong.
func TestTicketIsNeverLogged(t *testing.T) {
	ca := newCA(t)
	ctl := newController(ca)
	ctl.fail("enrol", connect.NewError(connect.CodeUnavailable, errors.New("not now")))
	c, log := onLoopback(t, ctl)
	e := enrolment(t, ca)
	e.Ticket = ticket(t, "hush-hush")
	ctx := attempts(t, c, 1)
	_, err := c.Enrol(ctx, e)
	for _, line := range append(log.take(), err.Error()) {
		if strings.Contains(line, "hush") {
			t.Errorf("ticket in %q", line)
		}
	}
}

// Many at once against one controller, over real sockets and with the race
// detector in mind.
func TestManyNodesJoinAtOnce(t *testing.T) {
	ca := newCA(t)
	ctl := newController(ca)
	l := listen(t)
	ctl.serve(t, l)
	var nodes sync.WaitGroup
	for range 20 {
		m := member(t, ca)
		nodes.Go(func() {
			c, _ := client(t, nil, l.Addr().String())
			ms, err := eager(c).Join(t.Context(), m)
			if err != nil {
				t.Error(err)
				return
			}
			ms.session.close()
		})
	}
	nodes.Wait()
	if got := ctl.booked(); len(got) != 20 || slices.ContainsFunc(got, func(s string) bool { return s != "join" }) {
		t.Errorf("calls %q", got)
	}
}

func TestNewWantsEndpoints(t *testing.T) {
	for _, endpoints := range [][]string{nil, {"10.0.0.1"}, {"10.0.0.1:7443", "0.0.0.0:7443"}} {
		if _, err := New(Config{Endpoints: endpoints}); err == nil {
			t.Errorf("took %q", endpoints)
		}
	}
}
