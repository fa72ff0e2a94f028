package cluster

import (
	"fmt"
	"time"

	"google.golang.org/protobuf/proto"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/service"
)

// Heartbeats come every interval; a node is lost when this many in a row are
// missing. Three rides out one retry on another controller.
const missedHeartbeats = 3

// view is a node as operators see it at a moment. Nothing is written when a
// node is lost: any controller computes it from the last heartbeat, so none
// has to be elected for it. (Controllers' clocks must agree to within an
// interval.)
func (m member) view(now time.Time, interval time.Duration) *clusterv1.Node {
	n := &clusterv1.Node{
		Id:        m.node.GetId(),
		Name:      m.node.GetName(),
		State:     clusterv1.NodeState_NODE_STATE_PENDING,
		Enrolled:  m.node.GetEnrolled(),
		KeySha256: m.node.GetKeySha256(),
		TpmMode:   m.node.GetTpmMode(),
	}
	if p := m.presence; p.GetBootId() != "" && p.GetNodeId() == n.GetId() {
		n.State = clusterv1.NodeState_NODE_STATE_JOINED
		if now.Sub(p.GetLastSeen().AsTime()) > missedHeartbeats*interval {
			n.State = clusterv1.NodeState_NODE_STATE_LOST
		}
		n.BootId, n.BuildId, n.Status = p.GetBootId(), p.GetBuildId(), p.GetStatus()
		if n.State == clusterv1.NodeState_NODE_STATE_LOST {
			n.Status = withoutNews(n.Status)
		}
		n.Joined, n.LastSeen = p.GetJoined(), p.GetLastSeen()
		n.ConfigGeneration, n.Boots = p.GetConfigGeneration(), p.GetBoots()
	}
	if m.node.GetRemoved() != nil {
		n.State = clusterv1.NodeState_NODE_STATE_REMOVED
	}
	return n
}

// withoutNews is the status of a node that nobody has heard of for a while: of
// its services nothing is known, whatever it last said.
func withoutNews(st *clusterv1.NodeStatus) *clusterv1.NodeStatus {
	st = proto.CloneOf(st)
	for _, s := range st.GetServices() {
		s.Reason = fmt.Sprintf("no news of the node; it was %s when last heard of", s.GetState())
		s.State, s.Ready, s.Verdict, s.NextTry = serviceUnknown, false, string(service.Unknown), nil
	}
	return st
}

// serviceUnknown is the state of a service on a node that does not report.
const serviceUnknown = "unknown"
