package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/storev1"
	"reveille/boot/identity"
)

// operatorService is what `reveille ticket` and `reveille node` call; Guard
// lets in operators only.
type operatorService struct {
	store    *store
	interval time.Duration
	relay    *relay
	log      *slog.Logger
}

// ListNodes implements clusterv1connect.OperatorServiceHandler.
func (o *operatorService) ListNodes(ctx context.Context, _ *clusterv1.ListNodesRequest) (*clusterv1.ListNodesResponse, error) {
	members, err := o.store.list(ctx)
	if err != nil {
		return nil, err
	}
	resp, now := new(clusterv1.ListNodesResponse), time.Now()
	for _, m := range members {
		resp.Nodes = append(resp.Nodes, m.view(now, o.interval))
	}
	return resp, nil
}

// GetNode implements clusterv1connect.OperatorServiceHandler.
func (o *operatorService) GetNode(ctx context.Context, req *clusterv1.GetNodeRequest) (*clusterv1.GetNodeResponse, error) {
	node, presence, err := o.find(ctx, req.GetName())
	if err != nil {
		return nil, err
	}
	m := member{node.msg.(*storev1.Node), presence.msg.(*storev1.Presence)}
	return &clusterv1.GetNodeResponse{Node: m.view(time.Now(), o.interval)}, nil
}

// RemoveNode implements clusterv1connect.OperatorServiceHandler. The record
// stays, so that the node is told why it may not join; its name and key are
// free again. Removing a removed node changes nothing.
func (o *operatorService) RemoveNode(ctx context.Context, req *clusterv1.RemoveNodeRequest) (*clusterv1.RemoveNodeResponse, error) {
	err := transact(ctx, func() error {
		rec, _, err := o.find(ctx, req.GetName())
		if err != nil {
			return err
		}
		node := rec.msg.(*storev1.Node)
		if node.GetRemoved() != nil {
			return nil
		}
		node.Removed = timestamppb.Now()
		key := &record{key: keysKey + node.GetKeySha256()}
		services, err := o.forgetServices(ctx, req.GetName())
		if err != nil {
			return err
		}
		return o.store.save(ctx, []*record{rec, services}, []*record{rec, services}, []*record{key})
	})
	if err != nil {
		return nil, err
	}
	o.log.Info("node removed", "node", req.GetName(), "operator", caller(ctx))
	return &clusterv1.RemoveNodeResponse{}, nil
}

func (o *operatorService) find(ctx context.Context, name string) (node, presence *record, err error) {
	if err := identity.CheckName(name); err != nil {
		return nil, nil, invalid(err.Error(), "reveille node list shows the names")
	}
	node = &record{key: nodesKey + name, msg: new(storev1.Node)}
	presence = &record{key: presenceKey + name, msg: new(storev1.Presence)}
	if err := o.store.load(ctx, node, presence); err != nil {
		return nil, nil, err
	}
	if !node.exists() {
		return nil, nil, identity.Refuse(connect.CodeNotFound, clusterv1.RefusalKind_REFUSAL_KIND_NODE_UNKNOWN,
			fmt.Sprintf("the cluster has no node %s", name), "reveille node list shows the names")
	}
	return node, presence, nil
}
