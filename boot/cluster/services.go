package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/clusterv1/clusterv1connect"
	"reveille/boot/cluster/dial"
	"reveille/boot/cluster/storev1"
	"reveille/boot/identity"
	"reveille/boot/service"
	"reveille/netcfg"
)

// maxApply is a document in its message.
const maxApply = service.MaxDocument + 4<<10

// desiredOf is the desired configuration of a node. Of a removed namesake's
// only the generation counts on: a node never sees it fall.
func desiredOf(kept *storev1.Services, node *storev1.Node) *clusterv1.DesiredServices {
	if kept.GetNodeId() == node.GetId() && kept.GetDesired() != nil {
		return kept.GetDesired()
	}
	return &clusterv1.DesiredServices{Generation: kept.GetDesired().GetGeneration()}
}

// newerServices is what a node that has the given generation is to be told.
func newerServices(d *clusterv1.DesiredServices, has uint64) *clusterv1.DesiredServices {
	if d.GetGeneration() == has {
		return nil
	}
	return d
}

// subject is a node with what it is to run.
type subject struct {
	node    *storev1.Node
	status  *clusterv1.NodeStatus // empty: the node has not told
	kept    *storev1.Services
	record  *record // of kept
	desired *desired
}

func (o *operatorService) subject(ctx context.Context, name string) (*subject, error) {
	rec, seen, err := o.find(ctx, name)
	if err != nil {
		return nil, err
	}
	s := &subject{node: rec.msg.(*storev1.Node), kept: new(storev1.Services)}
	if s.node.GetRemoved() != nil {
		return nil, identity.Refuse(connect.CodeFailedPrecondition, clusterv1.RefusalKind_REFUSAL_KIND_NODE_REMOVED,
			fmt.Sprintf("node %s was removed from the cluster", name), "services are given to members")
	}
	if p := seen.msg.(*storev1.Presence); p.GetNodeId() == s.node.GetId() {
		s.status = p.GetStatus()
	}
	s.record = &record{key: servicesKey + name, msg: s.kept}
	if err := o.store.load(ctx, s.record); err != nil {
		return nil, err
	}
	s.desired = openDesired(desiredOf(s.kept, s.node), s.status)
	return s, nil
}

// forgetServices is the record of a node's services without what they were: its
// secrets are nobody's any more.
func (o *operatorService) forgetServices(ctx context.Context, name string) (*record, error) {
	kept := new(storev1.Services)
	r := &record{key: servicesKey + name, msg: kept}
	if err := o.store.load(ctx, r); err != nil {
		return nil, err
	}
	kept.Desired = &clusterv1.DesiredServices{Generation: kept.GetDesired().GetGeneration()}
	return r, nil
}

// change stores what edit makes of a node's desired configuration, and tells
// the node, unless nothing came of it.
func (o *operatorService) change(ctx context.Context, node, what string, edit func(*desired) error) (generation uint64, told bool, err error) {
	var s *subject
	var before uint64
	err = transact(ctx, func() (err error) {
		if s, err = o.subject(ctx, node); err != nil {
			return err
		}
		before = s.desired.Generation
		if err := edit(s.desired); err != nil || s.desired.Generation == before {
			return err
		}
		s.kept.NodeId, s.kept.Desired = s.node.GetId(), s.desired.DesiredServices
		return o.store.save(ctx, []*record{s.record}, []*record{s.record}, nil)
	})
	if err != nil {
		return 0, false, err
	}
	generation = s.desired.Generation
	if generation != before {
		o.log.Info("services changed", "node", node, "change", what, "generation", generation, "operator", caller(ctx))
	}
	return generation, s.told() || o.relay.nudge(ctx, s), nil
}

// told reports whether the node, as it last said, has this generation already.
func (s *subject) told() bool {
	return s.status.GetServicesGeneration() == s.desired.Generation
}

// ApplyServices implements clusterv1connect.OperatorServiceHandler.
func (o *operatorService) ApplyServices(ctx context.Context, req *clusterv1.ApplyServicesRequest) (*clusterv1.ApplyServicesResponse, error) {
	var c changes
	generation, told, err := o.change(ctx, req.GetNode(), "apply", func(d *desired) (err error) {
		c, err = d.apply(printable(req.GetFile(), maxReason), req.GetDocument(), req.GetPrune())
		return err
	})
	var problems netcfg.Problems
	if errors.As(err, &problems) {
		return &clusterv1.ApplyServicesResponse{Problems: problemsOf(problems)}, nil
	}
	if lacks := (*lacking)(nil); errors.As(err, &lacks) {
		return nil, invalid(lacks.Error(), "give --prune to have them removed, or a document that has them")
	}
	if err != nil {
		return nil, err
	}
	return &clusterv1.ApplyServicesResponse{Generation: generation, Added: c.added, Changed: c.changed, Removed: c.removed, Told: told}, nil
}

func problemsOf(problems netcfg.Problems) (out []*clusterv1.Problem) {
	for _, p := range problems {
		out = append(out, &clusterv1.Problem{File: p.File, Line: uint32(p.Line), Column: uint32(p.Column), Key: p.Key, Text: p.Text,
			Unsupported: p.Kind == netcfg.Unsupported})
	}
	return out
}

// OrderService implements clusterv1connect.OperatorServiceHandler.
func (o *operatorService) OrderService(ctx context.Context, req *clusterv1.OrderServiceRequest) (*clusterv1.OrderServiceResponse, error) {
	edits := map[clusterv1.OrderServiceRequest_Order]func(*desired, string) error{
		clusterv1.OrderServiceRequest_ORDER_START:  (*desired).start,
		clusterv1.OrderServiceRequest_ORDER_STOP:   (*desired).stop,
		clusterv1.OrderServiceRequest_ORDER_REMOVE: (*desired).remove,
	}
	edit, known := edits[req.GetOrder()]
	name := printable(req.GetService(), maxName)
	if !known {
		return nil, invalid("this controller does not know that order", "update it")
	}
	verb := strings.ToLower(strings.TrimPrefix(req.GetOrder().String(), "ORDER_"))
	generation, told, err := o.change(ctx, req.GetNode(), verb+" "+name, func(d *desired) error { return edit(d, name) })
	var problems netcfg.Problems
	switch {
	case errors.Is(err, errNoService):
		return nil, invalid(fmt.Sprintf("node %s has no service %s to %s", req.GetNode(), name, verb),
			"reveille service list "+req.GetNode()+" shows those it has; what its own node.yaml defines is removed there")
	case errors.As(err, &problems):
		return nil, invalid(fmt.Sprintf("without %s its document would be wrong: %s", name, problems[0]), "apply one that is right")
	case err != nil:
		return nil, err
	}
	return &clusterv1.OrderServiceResponse{Generation: generation, Told: told}, nil
}

// ListServices implements clusterv1connect.OperatorServiceHandler.
func (o *operatorService) ListServices(ctx context.Context, req *clusterv1.ListServicesRequest) (*clusterv1.ListServicesResponse, error) {
	s, err := o.subject(ctx, req.GetNode())
	if err != nil {
		return nil, err
	}
	seen, err := o.GetNode(ctx, &clusterv1.GetNodeRequest{Name: req.GetNode()}) // of a lost node nothing is known
	if err != nil {
		return nil, err
	}
	status := seen.GetNode().GetStatus()
	resp := &clusterv1.ListServicesResponse{Generation: s.desired.Generation, InForce: status.GetServicesGeneration(),
		Problem: status.GetServicesProblem(), NodeState: seen.GetNode().GetState()}
	views := map[string]*clusterv1.ServiceView{}
	view := func(name string) *clusterv1.ServiceView {
		if views[name] == nil {
			views[name] = &clusterv1.ServiceView{Name: name}
			resp.Services = append(resp.Services, views[name])
		}
		return views[name]
	}
	for _, def := range s.desired.defined.Services {
		view(def.Name).Defined = true
	}
	for _, st := range status.GetServices() {
		view(st.GetName()).Status = st
	}
	for _, w := range s.desired.Wishes {
		view(w.GetService()).Stopped = w.GetStopped()
	}
	slices.SortFunc(resp.Services, func(a, b *clusterv1.ServiceView) int { return strings.Compare(a.GetName(), b.GetName()) })
	return resp, nil
}

// A node on the same continent answers in a fraction of a second; one that does
// not hears the news from its next heartbeat, and the operator waits no longer.
const nudgeTimeout = 2 * time.Second

// nudge has a node send a heartbeat now, whose answer brings the news.
func (r *relay) nudge(ctx context.Context, s *subject) bool {
	addrs := s.status.GetApiAddresses()
	if len(addrs) == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, nudgeTimeout)
	defer cancel()
	want := identity.Peer{ClusterID: r.authority.ClusterID, Role: identity.RoleNode, Name: s.node.GetName(), KeySHA256: s.node.GetKeySha256()}
	client := dial.HTTPClient(addrs, identity.ClientTLS(r.authority.Certificate, r.certificate, want, identity.SystemClock))
	defer client.CloseIdleConnections()
	_, err := clusterv1connect.NewNodeServiceClient(client, dial.BaseURL, connect.WithReadMaxBytes(maxRequest)).Nudge(ctx, &clusterv1.NudgeRequest{})
	return err == nil
}
