package cluster

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/clusterv1/clusterv1connect"
	"reveille/boot/cluster/operator"
	"reveille/boot/identity"
)

// fakeNode serves two records, and stays while followed.
type fakeNode struct{}

// longest is a record as long as a node keeps any: a crash's trace.
var longest = strings.Repeat("goroutine 1 [running]:\n", maxLogText)[:maxLogText]

func (fakeNode) Logs(ctx context.Context, req *clusterv1.LogsRequest, out *connect.ServerStream[clusterv1.LogRecord]) error {
	if req.GetLevel() == "loud" {
		return connect.NewError(connect.CodeInvalidArgument, errText("level \x1b loud is none"))
	}
	if peer, _ := identity.PeerFrom(ctx); peer.Role != identity.RoleController {
		return connect.NewError(connect.CodePermissionDenied, errText(peer.String()))
	}
	if req.GetLevel() == "crash" {
		return out.Send(&clusterv1.LogRecord{Origin: "crash", Level: "crash", Text: longest})
	}
	for i, text := range []string{"bond0 up\x1b[2J", "joined"} {
		r := &clusterv1.LogRecord{Seq: uint64(i), Uptime: durationpb.New(time.Duration(i) * time.Second), Origin: "netcfg", Level: "info", Text: text}
		if err := out.Send(r); err != nil {
			return err
		}
	}
	if req.GetFollow() {
		<-ctx.Done()
	}
	return nil
}

// Attach echoes what is typed, and ends at a line of it.
func (fakeNode) Attach(_ context.Context, stream *connect.BidiStream[clusterv1.AttachRequest, clusterv1.AttachResponse]) error {
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	if first.GetService() != "vm" {
		return connect.NewError(connect.CodeNotFound, errText("there is no service \x1b"))
	}
	_ = stream.Send(&clusterv1.AttachResponse{Attached: &clusterv1.Attached{Incarnation: 1, Terminal: true}}) // Receive says if it fails
	for {
		m, err := stream.Receive()
		if err != nil {
			return err
		}
		_ = stream.Send(&clusterv1.AttachResponse{Output: m.GetInput()})
		if bytes.HasSuffix(m.GetInput(), []byte("\n")) {
			_ = stream.Send(&clusterv1.AttachResponse{Line: &clusterv1.LogRecord{Text: "a\x1b"}})
			return stream.Send(&clusterv1.AttachResponse{Ended: &clusterv1.Detached{Reason: "gone\x1b"}})
		}
	}
}

func (fakeNode) Nudge(context.Context, *clusterv1.NudgeRequest) (*clusterv1.NudgeResponse, error) {
	nudges.Add(1)
	return &clusterv1.NudgeResponse{}, nil
}

type errText string

func (e errText) Error() string { return string(e) }

// serveNodeAPI runs n's API on loopback until the test ends.
func serveNodeAPI(t *testing.T, c *running, n *node) string {
	t.Helper()
	_, h := clusterv1connect.NewNodeServiceHandler(fakeNode{})
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := &http.Server{Handler: identity.Guard(h, identity.RoleController, identity.RoleOperator),
		TLSConfig: identity.ServerTLS(c.context.CA, n.grant.TLS(n.key), nil)}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.ServeTLS(ln, "", "") }()
	t.Cleanup(func() { _ = srv.Close(); <-done })
	return ln.Addr().String()
}

func TestNodeLogs(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{})
	n, impostor := enrolled(c, "n1"), enrolled(c, "n2")
	logs := func(name string, req *clusterv1.LogsRequest) (string, error) {
		var out bytes.Buffer
		err := operator.CopyLogs(t.Context(), c.operator, &clusterv1.NodeLogsRequest{Node: name, Logs: req}, operator.Table, &out)
		return out.String(), err
	}

	_, err := logs("n1", nil)
	wantCode(t, err, connect.CodeUnavailable)
	if !strings.Contains(err.Error(), "has not told an address") {
		t.Errorf("got %v", err)
	}
	_, err = logs("n9", nil)
	wantRefusal(t, err, connect.CodeNotFound, clusterv1.RefusalKind_REFUSAL_KIND_NODE_UNKNOWN)

	dead, wrong, good := refusing(t), serveNodeAPI(t, c, impostor), serveNodeAPI(t, c, n)
	n.join(c, "b1", &clusterv1.NodeStatus{ApiAddresses: []string{dead, wrong, good}})
	got, err := logs("n1", nil)
	want := "[    0.000] netcfg        I bond0 up?[2J\n[    1.000] netcfg        I joined\n"
	if err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	got, err = logs("n1", &clusterv1.LogsRequest{Level: "crash"})
	if lines := strings.Count(got, "goroutine 1 [running]:\n"); err != nil || lines != strings.Count(longest, "\n") {
		t.Errorf("got %d lines, %v, want all %d of the longest record", lines, err, strings.Count(longest, "\n"))
	}
	_, err = logs("n1", &clusterv1.LogsRequest{Level: "loud"})
	wantCode(t, err, connect.CodeInvalidArgument)
	if !strings.Contains(err.Error(), "node n1: level ? loud is none") {
		t.Errorf("got %v", err)
	}

	n.join(c, "b1", &clusterv1.NodeStatus{ApiAddresses: []string{dead, wrong}})
	_, err = logs("n1", nil)
	wantCode(t, err, connect.CodeUnavailable)
	for _, part := range []string{"dial " + dead, "connection refused", "dial " + wrong, "another key than that of node n1"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got %v, want it to name %q", err, part)
		}
	}
}

// TestAttach types into a service through the controller, and hears of its end.
func TestAttach(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{})
	n := enrolled(c, "n1")
	n.join(c, "b1", &clusterv1.NodeStatus{ApiAddresses: []string{refusing(t), serveNodeAPI(t, c, n)}})
	attach := func(name string) (string, error) {
		var out bytes.Buffer
		err := operator.Attachment{Request: &clusterv1.AttachRequest{Node: "n1", Service: name}, Out: &out,
			Begin: func(_ *clusterv1.Attached, send func(*clusterv1.AttachRequest) error) func() {
				for _, text := range []string{"\x1b[1m", "x\n"} {
					if err := send(&clusterv1.AttachRequest{Input: []byte(text)}); err != nil {
						t.Error(err)
					}
				}
				return func() { out.WriteString("-- restored") }
			}}.Run(t.Context(), c.operator)
		return out.String(), err
	}
	got, err := attach("vm")
	var ended *operator.Ended
	if !errors.As(err, &ended) || ended.Reason != "gone?" || got != "\x1b[1mx\na?\n-- restored" {
		t.Errorf("got %q, %v", got, err)
	}
	_, err = attach("other")
	wantCode(t, err, connect.CodeNotFound)
	if !strings.Contains(err.Error(), "node n1: there is no service ?") {
		t.Errorf("got %v", err)
	}
}

// A removed machine keeps its certificate; it must not be heard as the machine
// that got its name.
func TestNodeLogsOfReplacedNode(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{})
	old := enrolled(c, "n1")
	api := serveNodeAPI(t, c, old)
	old.join(c, "b1", &clusterv1.NodeStatus{ApiAddresses: []string{api}})
	logs := func() error {
		return operator.CopyLogs(t.Context(), c.operator, &clusterv1.NodeLogsRequest{Node: "n1"}, operator.Table, io.Discard)
	}
	if _, err := c.operator.RemoveNode(t.Context(), &clusterv1.RemoveNodeRequest{Name: "n1"}); err != nil {
		t.Fatal(err)
	}
	wantRefusal(t, logs(), connect.CodeFailedPrecondition, clusterv1.RefusalKind_REFUSAL_KIND_NODE_REMOVED)
	next := enrolled(c, "n1")
	if err := logs(); err == nil || !strings.Contains(err.Error(), "has not told an address") {
		t.Errorf("got %v", err)
	}
	next.join(c, "b1", &clusterv1.NodeStatus{ApiAddresses: []string{api}})
	if err := logs(); err == nil || !strings.Contains(err.Error(), "for another key than that of node n1") {
		t.Errorf("got %v", err)
	}
}
