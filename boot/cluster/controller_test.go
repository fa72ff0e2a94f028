package cluster

import (
	"bufio"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"connectrpc.com/connect"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/clusterv1/clusterv1connect"
	"reveille/boot/cluster/dial"
	"reveille/boot/cluster/operator"
	"reveille/boot/identity"
)

const childDir = "REVEILLE_TEST_CONTROLLER"

// childMain is a controller in a process of its own.
func childMain(dir string) int {
	err := Run(context.Background(), Config{Name: "a", DataDir: dir, Listen: "127.0.0.1:0",
		Log:   slog.New(slog.DiscardHandler),
		Ready: func(r Ready) { fmt.Println(r.Listen, r.CA) }})
	fmt.Fprintln(os.Stderr, err)
	return 1
}

func TestKillKeepsIdentity(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childDir+"="+dir)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	kill := func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }
	t.Cleanup(kill)
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	addr, pin, _ := strings.Cut(strings.TrimSpace(line), " ")
	parsed, err := identity.ParsePin(pin)
	if err != nil {
		t.Fatal(err)
	}
	first := &running{t: t, addr: addr, pin: parsed, dir: dir}
	if first.context, err = operator.Load(filepath.Join(dir, "operator.yaml")); err != nil {
		t.Fatal(err)
	}
	first.callAsOperator()
	n := enrolled(first, "n1")
	n.join(first, "b1", nil)
	if _, err := lockData(dir); err == nil || !strings.Contains(err.Error(), "another controller runs on it") {
		t.Errorf("a second controller on the same directory: got %v", err)
	}

	kill()
	second := startController(t, Config{DataDir: dir})
	if second.pin != first.pin {
		t.Errorf("another CA after the kill: %s, before %s", second.pin, first.pin)
	}
	n.join(second, "b2", nil)
	if got := second.show("n1"); got.GetId() != n.grant.NodeID || got.GetBoots() != 2 {
		t.Errorf("got %v", got)
	}
	// A context copied before the kill goes on working.
	if _, err := copied(first.context, second.addr).Client().ListNodes(t.Context(), &clusterv1.ListNodesRequest{}); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(filepath.Join(dir, "operator.yaml"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("operator.yaml: %v, %v", info.Mode(), err)
	}
}

func copied(c *operator.Context, addr string) *operator.Context {
	moved := *c
	moved.Endpoints = []string{addr}
	return &moved
}

func TestTwoControllersOnOneEtcd(t *testing.T) {
	t.Parallel()
	etcd := External{Endpoints: []string{externalEtcd(t)}}
	all := make([]*running, 2)
	started := make(chan int)
	for i, name := range []string{"a", "b"} {
		go func() { // both find the store empty
			defer func() { started <- i }()
			all[i] = startController(t, Config{Name: name, Etcd: etcd})
		}()
	}
	<-started
	<-started
	a, b := all[0], all[1]
	if a == nil || b == nil {
		t.FailNow()
	}
	if a.pin != b.pin {
		t.Fatalf("two CAs: %s, %s", a.pin, b.pin)
	}
	n := enrolled(a, "n1")
	n.join(b, "b1", nil)
	if got := a.show("n1"); got.GetState() != clusterv1.NodeState_NODE_STATE_JOINED {
		t.Errorf("got %v", got)
	}
	resp := n.join(a, "b1", nil)
	dir, err := identity.VerifyDirectory(resp.GetDirectory(), n.grant.CA)
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(dir.GetControllers()[0].GetAddresses(), dir.GetControllers()[1].GetAddresses()); len(dir.GetControllers()) != 2 ||
		got != fmt.Sprintf("[%s] [%s]", a.addr, b.addr) || dir.GetGeneration() != 2 {
		t.Errorf("got directory %v", dir)
	}
	// The context of one works at the other, and one dead endpoint holds nobody.
	ctx := *a.context
	ctx.Endpoints = []string{refusing(t), b.addr}
	if _, err := ctx.Client().ListNodes(t.Context(), &clusterv1.ListNodesRequest{}); err != nil {
		t.Error(err)
	}
}

// refusing is an address of this machine that nobody listens on.
func refusing(t *testing.T) string {
	t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = ln.Close() }()
	return ln.Addr().String()
}

// externalEtcd runs an etcd with a client listener, as others would.
func externalEtcd(t *testing.T) string {
	t.Helper()
	cfg := etcdConfig(t.TempDir(), zap.NewNop())
	cfg.ListenClientUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	e, err := embed.StartEtcd(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	<-e.Server.ReadyNotify()
	return e.Clients[0].Addr().String()
}

func TestStoreOutOfReachIsWaitedFor(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	lines := &waitLog{found: cancel}
	err := Run(ctx, Config{Name: "a", DataDir: t.TempDir(), Listen: "127.0.0.1:0", Etcd: External{Endpoints: []string{refusing(t)}},
		Log: slog.New(slog.NewTextHandler(lines, nil))})
	if err != nil || !lines.seen {
		t.Errorf("got %v, and said that it waits: %v", err, lines.seen)
	}
}

// waitLog ends the wait once the controller has said that it waits.
type waitLog struct {
	found func()
	seen  bool
}

func (w *waitLog) Write(p []byte) (int, error) {
	if strings.Contains(string(p), "store does not answer, next try in 2s") {
		w.seen = true
		w.found()
	}
	return len(p), nil
}

// Garbage on the port is logged and forgotten.
func TestBadConnectionsKillNothing(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{})
	for _, first := range []string{"GET / HTTP/1.1\r\n\r\n", "\x16\x03\x01\x00\x05garba", strings.Repeat("\x00", 4096), ""} {
		conn, err := net.Dial("tcp", c.addr)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := conn.Write([]byte(first)); err != nil {
			t.Fatal(err)
		}
		_ = conn.Close()
	}
	client := c.client(identity.PinnedClientTLS(c.pin, nil))
	for path, want := range map[string]int{
		"/": http.StatusUnauthorized, // the page is for operators
		"/reveille.cluster.v1.EnrolmentService/Nothing": http.StatusNotFound,
	} {
		resp, err := client.Get("https://x" + path)
		if err != nil || resp.StatusCode != want {
			t.Errorf("%s: got %v, %v", path, resp, err)
			continue
		}
		_ = resp.Body.Close()
	}
	if _, err := c.operator.ListNodes(t.Context(), &clusterv1.ListNodesRequest{}); err != nil {
		t.Error(err)
	}
}

// curl and gRPC clients are promised: the Connect protocol is plain HTTP.
func TestJSONOverHTTP11(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{})
	cert := identity.Certificate(c.context.Certificate, c.context.CA, c.context.Key)
	cfg := identity.ClientTLS(c.context.CA, cert, identity.Peer{Role: identity.RoleController}, nil)
	cfg.NextProtos = []string{"http/1.1"}
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: cfg}}
	t.Cleanup(client.CloseIdleConnections)
	resp, err := client.Post("https://"+c.addr+"/reveille.cluster.v1.OperatorService/ListNodes", "application/json", strings.NewReader("{}"))
	if err != nil || resp.StatusCode != http.StatusOK || resp.ProtoMajor != 1 {
		t.Fatalf("got %v, %v", resp, err)
	}
	_ = resp.Body.Close()
}

func TestGRPC(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{})
	cert := identity.Certificate(c.context.Certificate, c.context.CA, c.context.Key)
	cfg := identity.ClientTLS(c.context.CA, cert, identity.Peer{Role: identity.RoleController}, nil)
	client := clusterv1connect.NewOperatorServiceClient(c.client(cfg), dial.BaseURL, connect.WithGRPC())
	if _, err := client.ListNodes(t.Context(), &clusterv1.ListNodesRequest{}); err != nil {
		t.Error(err)
	}
	wantCode(t, func() error {
		_, err := client.GetNode(t.Context(), &clusterv1.GetNodeRequest{Name: "nobody"})
		return err
	}(), connect.CodeNotFound)
}

func TestStopIsBounded(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{})
	n := enrolled(c, "n1")
	api := serveNodeAPI(t, c, n)
	n.join(c, "b1", &clusterv1.NodeStatus{ApiAddresses: []string{api}})
	stream, err := c.operator.NodeLogs(t.Context(), &clusterv1.NodeLogsRequest{Node: "n1", Logs: &clusterv1.LogsRequest{Follow: true}})
	if err != nil || !stream.Receive() { // a follower that would stay for ever
		t.Fatal(err, stream.Err())
	}
	begin := time.Now()
	c.stop()
	if took := time.Since(begin); took > drainTimeout {
		t.Errorf("took %s", took)
	}
	for stream.Receive() {
	}
	if stream.Err() == nil {
		t.Error("the follower was not told")
	}
}

func TestAdvertised(t *testing.T) {
	t.Parallel()
	some := []netip.Addr{netip.MustParseAddr("192.0.2.1"), netip.MustParseAddr("2001:db8::1")}
	many := slices.Repeat(some, 20)
	for _, tc := range []struct {
		name       string
		asked      []string
		bound      string
		interfaces []netip.Addr
		want       string // addresses, or the error
	}{
		{"the bound address", nil, "127.0.0.1:7443", some, "127.0.0.1:7443"},
		{"interfaces", nil, "[::]:7443", some, "192.0.2.1:7443 [2001:db8::1]:7443"},
		{"no interface", nil, "0.0.0.0:7443", nil, "give --advertise"},
		{"asked", []string{"10.0.2.2:99", "c.example:0"}, "0.0.0.0:7443", some, "10.0.2.2:99 c.example:7443"},
		{"asked for nonsense", []string{"10.0.2.2"}, "0.0.0.0:7443", some, "want host:port"},
		{"asked for the unspecified", []string{"0.0.0.0:0"}, "0.0.0.0:7443", some, "no address that others can dial"},
	} {
		got, err := advertised(tc.asked, netip.MustParseAddrPort(tc.bound), tc.interfaces)
		text := strings.Join(got, " ")
		if err != nil {
			text = err.Error()
		}
		if text != tc.want && (err == nil || !strings.Contains(text, tc.want)) {
			t.Errorf("%s: got %s, want %s", tc.name, text, tc.want)
		}
	}
	if got, err := advertised(nil, netip.MustParseAddrPort("[::]:1"), many); err != nil || len(got) != maxInterfaceAddresses {
		t.Errorf("got %v, %v", got, err)
	}
}

func TestOperatorEndpoints(t *testing.T) {
	t.Parallel()
	for bound, want := range map[string]string{
		"127.0.0.1:1": "127.0.0.1:1 10.0.2.2:1",
		"[::]:1":      "localhost:1 10.0.2.2:1",
		"10.0.2.2:1":  "10.0.2.2:1",
	} {
		if got := strings.Join(operatorEndpoints(netip.MustParseAddrPort(bound), []string{"10.0.2.2:1"}), " "); got != want {
			t.Errorf("%s: got %s, want %s", bound, got, want)
		}
	}
}

func port(addr string) string { return addr[strings.LastIndex(addr, ":")+1:] }

// storedAuthority stops c and reads the CA from its store.
func storedAuthority(t *testing.T, c *running) *identity.Authority {
	t.Helper()
	c.stop()
	b, err := startEtcd(t.Context(), c.dir, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	a, err := loadAuthority(t.Context(), &store{b.client}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return a
}
