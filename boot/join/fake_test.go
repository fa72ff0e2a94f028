package join

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/clusterv1/clusterv1connect"
	"reveille/boot/identity"
	"reveille/boot/params"
)

// fakeNetwork is a network in memory: what each address does when dialled and
// each name when looked up. What it does not know it refuses as Linux does.
type fakeNetwork struct {
	mu     sync.Mutex
	addrs  map[string]func(context.Context) (net.Conn, error)
	names  map[string]func(context.Context) ([]netip.Addr, error)
	dialed []string
}

func newFakeNetwork() *fakeNetwork {
	return &fakeNetwork{
		addrs: map[string]func(context.Context) (net.Conn, error){},
		names: map[string]func(context.Context) ([]netip.Addr, error){},
	}
}

func (n *fakeNetwork) DialContext(ctx context.Context, _, address string) (net.Conn, error) {
	n.mu.Lock()
	n.dialed = append(n.dialed, address)
	dial := n.addrs[address]
	n.mu.Unlock()
	if dial == nil {
		return nil, connectError(syscall.ENETUNREACH)
	}
	return dial(ctx)
}

func (n *fakeNetwork) LookupNetIP(ctx context.Context, _, host string) ([]netip.Addr, error) {
	if lookup := n.names[host]; lookup != nil {
		return lookup(ctx)
	}
	return nil, &net.DNSError{Err: "no such host", Name: host, Server: "10.0.2.3:53", IsNotFound: true}
}

func (n *fakeNetwork) set(address string, dial func(context.Context) (net.Conn, error)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.addrs[address] = dial
}

// dials returns the addresses dialled since the last call.
func (n *fakeNetwork) dials() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.dialed
	n.dialed = nil
	return out
}

func connectError(errno syscall.Errno) error {
	return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", errno)}
}

func refuses(errno syscall.Errno) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) { return nil, connectError(errno) }
}

// dropsPackets never answers a SYN.
func dropsPackets(ctx context.Context) (net.Conn, error) {
	<-ctx.Done()
	return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.ErrDeadlineExceeded}
}

// acceptsOnly accepts a connection and reads it until the other side closes,
// but never answers.
func acceptsOnly(context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	go io.Copy(io.Discard, server)
	return client, nil
}

// pipeListener is a net.Listener for connections that are made by dial.
type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
}

func (l *pipeListener) dial(ctx context.Context) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-l.done:
		return nil, connectError(syscall.ECONNREFUSED)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.UnixAddr{Name: "pipe"} }

// controller is a cluster's side, as far as a node can tell. Its fields may be
// changed under mu.
type controller struct {
	ca *identity.Authority

	mu       sync.Mutex
	err      map[string]error // per procedure's last element: what it answers
	hang     bool             // never answer
	grants   map[string]*clusterv1.EnrolResponse
	losing   int // how many enrolment answers get lost on the way
	interval time.Duration
	dir      *clusterv1.SignedDirectory
	now      time.Time
	calls    []string // "join", "heartbeat booting"
	at       []time.Time
	boots    map[string]bool
}

func newController(ca *identity.Authority) *controller {
	return &controller{
		ca: ca, err: map[string]error{}, grants: map[string]*clusterv1.EnrolResponse{}, interval: 10 * time.Second,
		dir: signedDirectory(ca, 1, c1), now: time.Now(), boots: map[string]bool{},
	}
}

func (c *controller) book(call string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.calls = append(c.calls, call)
	c.at = append(c.at, time.Now())
	return c.err[strings.Fields(call)[0]]
}

func (c *controller) fail(call string, err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err[call] = err
}

// booked returns the calls since the last time.
func (c *controller) booked() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.calls
	c.calls, c.at = nil, nil
	return out
}

func (c *controller) Enrol(ctx context.Context, req *clusterv1.EnrolRequest) (*clusterv1.EnrolResponse, error) {
	if err := c.book("enrol"); err != nil {
		return nil, err
	}
	pub, err := identity.ParseCSR(req.GetCsr(), req.GetName())
	if err != nil {
		return nil, err
	}
	key, _ := identity.KeySHA256(pub)
	id := req.GetTicket() + " " + key
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.grants[id] == nil {
		leaf, err := c.ca.Issue(identity.RoleNode, req.GetName(), pub, c.now, 0)
		if err != nil {
			return nil, err
		}
		c.grants[id] = &clusterv1.EnrolResponse{
			NodeId: fmt.Sprintf("id-%d", len(c.grants)+1), ClusterId: c.ca.ClusterID,
			Certificate: leaf.Raw, CaCertificate: c.ca.Certificate.Raw, Directory: c.dir,
			TpmMode: clusterv1.TpmMode_TPM_MODE_REQUIRED, ClusterTime: timestamppb.New(c.now),
		}
	}
	if c.losing > 0 {
		c.losing--
		panic(http.ErrAbortHandler)
	}
	return c.grants[id], nil
}

func (c *controller) Join(ctx context.Context, req *clusterv1.JoinRequest) (*clusterv1.JoinResponse, error) {
	if err := c.book("join"); err != nil {
		return nil, err
	}
	c.mu.Lock()
	hang := c.hang
	c.mu.Unlock()
	if hang {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.boots[req.GetBootId()] = true
	return &clusterv1.JoinResponse{
		ClusterTime: timestamppb.New(c.now), HeartbeatInterval: durationpb.New(c.interval), Directory: c.dir,
	}, nil
}

func (c *controller) Heartbeat(ctx context.Context, req *clusterv1.HeartbeatRequest) (*clusterv1.HeartbeatResponse, error) {
	if err := c.book("heartbeat " + req.GetStatus().GetStage()); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.boots[req.GetBootId()] {
		return nil, identity.UnknownBoot(req.GetBootId())
	}
	resp := &clusterv1.HeartbeatResponse{ClusterTime: timestamppb.New(c.now), HeartbeatInterval: durationpb.New(c.interval)}
	dir := new(clusterv1.Directory)
	if err := proto.Unmarshal(c.dir.GetDirectory(), dir); err != nil || dir.GetGeneration() > req.GetDirectoryGeneration() {
		resp.Directory = c.dir
	}
	return resp, nil
}

func (c *controller) UploadBundle(_ context.Context, req *clusterv1.UploadBundleRequest) (*clusterv1.UploadBundleResponse, error) {
	if err := c.book("upload " + string(req.GetRecord())); err != nil {
		return nil, err
	}
	return new(clusterv1.UploadBundleResponse), nil
}

// serve serves on l until the test, or its bubble, ends.
func (c *controller) serve(t *testing.T, l net.Listener) *http.Server {
	t.Helper()
	key, err := identity.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := c.ca.Issue(identity.RoleController, "c1", key.Public(), time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return serveTLS(t, l, c, identity.ServerTLS(c.ca.Certificate, identity.Certificate(leaf, c.ca.Certificate, key), nil))
}

func serveTLS(t *testing.T, l net.Listener, c *controller, conf *tls.Config) *http.Server {
	mux := http.NewServeMux()
	mux.Handle(clusterv1connect.NewEnrolmentServiceHandler(c))
	_, membership := clusterv1connect.NewMembershipServiceHandler(c)
	mux.Handle("/"+clusterv1connect.MembershipServiceName+"/", identity.Guard(membership, identity.RoleNode))
	srv := &http.Server{Handler: mux, TLSConfig: conf, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, 0)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = srv.ServeTLS(l, "", "")
	}()
	t.Cleanup(func() {
		srv.Close()
		<-done
	})
	return srv
}

func newCA(t *testing.T) *identity.Authority {
	t.Helper()
	ca, err := identity.NewAuthority("lab", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return ca
}

func signedDirectory(ca *identity.Authority, generation uint64, addresses ...string) *clusterv1.SignedDirectory {
	dir := &clusterv1.Directory{Generation: generation, CaSha256: strings.TrimPrefix(identity.PinOf(ca.Certificate).String(), "sha256:")}
	if len(addresses) > 0 {
		dir.Controllers = []*clusterv1.Controller{{Name: "c1", Addresses: addresses}}
	}
	signed, err := identity.SignDirectory(dir, ca.Key)
	if err != nil {
		panic(err)
	}
	return signed
}

// enrolment is a node's wish that a controller of ca can grant.
func enrolment(t *testing.T, ca *identity.Authority) Enrolment {
	t.Helper()
	key, err := identity.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	return Enrolment{
		Pin: identity.PinOf(ca.Certificate), Ticket: ticket(t, "t-1"), Name: "n1", Key: key,
		TPMMode: params.TPMPreferred, TPMPresent: true, BootID: "boot-1", BuildID: "build-1",
	}
}

// ticket goes the way every ticket comes.
func ticket(t *testing.T, text string) params.Secret {
	t.Helper()
	s, err := params.NewTicket(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// member is a node of ca's cluster that keeps no directory.
func member(t *testing.T, ca *identity.Authority) Member {
	t.Helper()
	key, err := identity.NewKey()
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := ca.Issue(identity.RoleNode, "n1", key.Public(), time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return Member{
		CA: ca.Certificate, Certificate: identity.Certificate(leaf, ca.Certificate, key), BootID: "boot-1", BuildID: "build-1",
		Directory:     signedDirectory(ca, 1, c1),
		KeepDirectory: func(context.Context, *clusterv1.SignedDirectory) error { return nil },
		Services:      func() uint64 { return 0 },
		KeepServices:  func(context.Context, *clusterv1.DesiredServices) {},
		Status:        func() *clusterv1.NodeStatus { return &clusterv1.NodeStatus{Stage: "join"} },
	}
}

// client is a Client over a fake network with its log.
func client(t *testing.T, network Network, endpoints ...string) (*Client, *logText) {
	t.Helper()
	log := new(logText)
	c, err := New(Config{Endpoints: endpoints, Log: slog.New(log), Network: network})
	if err != nil {
		t.Fatal(err)
	}
	return c, log
}

// logText is a slog.Handler that keeps "LEVEL message key=value".
type logText struct {
	mu    sync.Mutex
	lines []string
}

func (l *logText) Enabled(context.Context, slog.Level) bool { return true }
func (l *logText) WithAttrs([]slog.Attr) slog.Handler       { return l }
func (l *logText) WithGroup(string) slog.Handler            { return l }

func (l *logText) Handle(_ context.Context, r slog.Record) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s %s", r.Level, r.Message)
	r.Attrs(func(a slog.Attr) bool {
		fmt.Fprintf(&b, " %s=%v", a.Key, a.Value)
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.lines = append(l.lines, b.String())
	return nil
}

// take returns the lines since the last call.
func (l *logText) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := l.lines
	l.lines = nil
	return out
}
