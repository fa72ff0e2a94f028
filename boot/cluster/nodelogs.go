package cluster

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"time"

	"connectrpc.com/connect"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/clusterv1/clusterv1connect"
	"reveille/boot/cluster/dial"
	"reveille/boot/cluster/storev1"
	"reveille/boot/identity"
)

// A backlog streams without pauses; a node silent for this long in the middle
// of one is gone. A follower may wait for ever: the operator ends it.
const logIdle = 15 * time.Second

// maxLogRecord is a record in its message.
const maxLogRecord = maxLogText + 4<<10

// relay calls nodes as this controller.
type relay struct {
	running     context.Context // of the controller: its end is the followers' end
	authority   *identity.Authority
	certificate tls.Certificate
}

// NodeLogs implements clusterv1connect.OperatorServiceHandler: it relays the
// node's own log, from the first of its addresses that answers as that node.
func (o *operatorService) NodeLogs(ctx context.Context, req *clusterv1.NodeLogsRequest, out *connect.ServerStream[clusterv1.LogRecord]) error {
	at, err := o.reach(ctx, req.GetNode())
	if err != nil {
		return err
	}
	err = o.relay.logs(ctx, at, req.GetLogs(), out.Send)
	if o.relay.running.Err() != nil {
		return connect.NewError(connect.CodeUnavailable, errors.New("this controller stops; ask again"))
	}
	if err != nil {
		return relayError(req.GetNode(), err)
	}
	return nil
}

var errLogIdle = fmt.Errorf("the node sent nothing for %s", logIdle)

// place is where a node's API is, and who has to answer there.
type place struct {
	want  identity.Peer
	addrs []string
}

// reach finds the API of a node that is there to be called.
func (o *operatorService) reach(ctx context.Context, name string) (place, error) {
	rec, seen, err := o.find(ctx, name)
	if err != nil {
		return place{}, storeError(ctx, o.log, "reach node", err)
	}
	node, presence := rec.msg.(*storev1.Node), seen.msg.(*storev1.Presence)
	if node.GetRemoved() != nil {
		return place{}, identity.Refuse(connect.CodeFailedPrecondition, clusterv1.RefusalKind_REFUSAL_KIND_NODE_REMOVED,
			fmt.Sprintf("node %s was removed from the cluster", name), "read its log on its console")
	}
	addrs := presence.GetStatus().GetApiAddresses()
	if len(addrs) == 0 || presence.GetNodeId() != node.GetId() {
		return place{}, connect.NewError(connect.CodeUnavailable,
			fmt.Errorf("node %s has not told an address of its API since it was enrolled; its console shows the same log", name))
	}
	want := identity.Peer{ClusterID: o.relay.authority.ClusterID, Role: identity.RoleNode, Name: node.GetName(), KeySHA256: node.GetKeySha256()}
	return place{want, addrs}, nil
}

// client calls the node at a place, for as long as the controller runs.
func (r *relay) client(at place) *http.Client {
	return dial.HTTPClient(at.addrs, identity.ClientTLS(r.authority.Certificate, r.certificate, at.want, identity.SystemClock))
}

// logs passes the records of the node at a place to send.
func (r *relay) logs(ctx context.Context, at place, req *clusterv1.LogsRequest, send func(*clusterv1.LogRecord) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(r.running, func() { cancel(nil) })()
	client := r.client(at)
	defer client.CloseIdleConnections()
	if req == nil {
		req = new(clusterv1.LogsRequest)
	}
	idle := time.AfterFunc(logIdle, func() {
		if !req.GetFollow() {
			cancel(errLogIdle)
		}
	})
	defer idle.Stop()
	node := clusterv1connect.NewNodeServiceClient(client, dial.BaseURL, connect.WithReadMaxBytes(maxLogRecord))
	stream, err := node.Logs(ctx, req)
	if err != nil {
		return err
	}
	defer func() { _ = stream.Close() }() // its error is Err's, or says that we left first
	for stream.Receive() {
		idle.Reset(logIdle)
		if err := send(cleanRecord(stream.Msg())); err != nil {
			return err
		}
	}
	if context.Cause(ctx) == errLogIdle {
		return errLogIdle
	}
	return stream.Err()
}

func cleanRecord(r *clusterv1.LogRecord) *clusterv1.LogRecord {
	r.Origin, r.Level, r.Text = printable(r.GetOrigin(), maxName), printable(r.GetLevel(), maxName), printableLines(r.GetText(), maxLogText)
	return r
}

// relayError keeps the node's own refusals (a bad level, too many readers) and
// makes the rest one answer: the node cannot be reached.
func relayError(node string, err error) error {
	var ce *connect.Error
	if errors.As(err, &ce) {
		if connect.IsWireError(ce) {
			return connect.NewError(ce.Code(), fmt.Errorf("node %s: %s", node, printable(ce.Message(), maxReason)))
		}
		err = ce.Unwrap()
	}
	return connect.NewError(connect.CodeUnavailable,
		fmt.Errorf("reach node %s: %w; its console shows its log", node, err))
}
