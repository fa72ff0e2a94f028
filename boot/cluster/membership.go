package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/storev1"
	"reveille/boot/identity"
)

// membershipService is what enrolled nodes call; Guard lets in no others.
type membershipService struct {
	store    *store
	interval time.Duration // of heartbeats
	log      *slog.Logger
}

// session is what one call of a node reads and writes.
type session struct {
	peer      identity.Peer
	node      *storev1.Node
	presence  *storev1.Presence
	directory *clusterv1.SignedDirectory
	services  *clusterv1.DesiredServices // never nil
	loaded    []*record                  // node, presence; their change is a conflict
}

// Join implements clusterv1connect.MembershipServiceHandler.
func (m *membershipService) Join(ctx context.Context, req *clusterv1.JoinRequest) (*clusterv1.JoinResponse, error) {
	boot := printable(req.GetBootId(), maxName)
	var s *session
	err := m.update(ctx, boot, func(opened *session, now time.Time) error {
		s = opened
		s.join(boot, now)
		s.presence.BuildId = printable(req.GetBuildId(), maxBuildID)
		s.presence.ConfigGeneration = req.GetConfigGeneration()
		s.presence.Status = cleanStatus(req.GetStatus())
		return nil
	})
	if err != nil {
		return nil, err
	}
	m.log.Info("node joined", "node", s.peer.Name, "boot", boot, "boots", s.presence.GetBoots(),
		"build", s.presence.GetBuildId(), "stage", s.presence.GetStatus().GetStage(), "from", remote(ctx))
	return &clusterv1.JoinResponse{
		ClusterTime:       timestamppb.Now(),
		HeartbeatInterval: durationpb.New(m.interval),
		Directory:         s.directory,
		Services:          newerServices(s.services, req.GetServicesGeneration()),
	}, nil
}

// Heartbeat implements clusterv1connect.MembershipServiceHandler.
func (m *membershipService) Heartbeat(ctx context.Context, req *clusterv1.HeartbeatRequest) (*clusterv1.HeartbeatResponse, error) {
	boot := printable(req.GetBootId(), maxName)
	var s *session
	err := m.update(ctx, boot, func(opened *session, now time.Time) error {
		s = opened
		if s.presence.GetBootId() != boot {
			return identity.UnknownBoot(boot)
		}
		s.presence.LastSeen = timestamppb.New(now)
		s.presence.Status = cleanStatus(req.GetStatus())
		return nil
	})
	if err != nil {
		return nil, err
	}
	resp := &clusterv1.HeartbeatResponse{ClusterTime: timestamppb.Now(), HeartbeatInterval: durationpb.New(m.interval)}
	if generationOf(s.directory) > req.GetDirectoryGeneration() {
		resp.Directory = s.directory
	}
	resp.Services = newerServices(s.services, req.GetServicesGeneration())
	return resp, nil
}

// update opens the caller's session, lets change work on it, and stores the
// presence; again from the start when somebody else wrote meanwhile.
func (m *membershipService) update(ctx context.Context, boot string, change func(*session, time.Time) error) error {
	if boot == "" {
		return invalid("the boot id is empty", "send the kernel's boot id")
	}
	err := transact(ctx, func() error {
		s, err := m.open(ctx, boot)
		if err != nil {
			return err
		}
		if err := change(s, time.Now()); err != nil {
			return err
		}
		return m.store.save(ctx, s.loaded, s.loaded[1:], nil)
	})
	if r := identity.RefusalOf(err); r != nil {
		m.log.Warn("node refused", "node", caller(ctx), "boot", boot, "kind", r.GetKind(), "cause", r.GetMessage(), "from", remote(ctx))
	}
	return err
}

// open loads the record of the node that the certificate names, and checks
// that it is still that node's.
func (m *membershipService) open(ctx context.Context, boot string) (*session, error) {
	peer, _ := identity.PeerFrom(ctx)
	s := &session{peer: peer, node: new(storev1.Node), presence: new(storev1.Presence), directory: new(clusterv1.SignedDirectory)}
	node := &record{key: nodesKey + peer.Name, msg: s.node}
	presence := &record{key: presenceKey + peer.Name, msg: s.presence}
	s.loaded = []*record{node, presence}
	services := new(storev1.Services)
	if err := m.store.load(ctx, node, presence, &record{key: directoryKey, msg: s.directory}, &record{key: servicesKey + peer.Name, msg: services}); err != nil {
		return nil, err
	}
	s.services = desiredOf(services, s.node)
	if !node.exists() {
		return nil, identity.Refuse(connect.CodeNotFound, clusterv1.RefusalKind_REFUSAL_KIND_NODE_UNKNOWN,
			fmt.Sprintf("the cluster has no node %s, though its certificate is ours: the store is older than the node", peer.Name),
			"restore the cluster's store, or enrol the node with a new ticket")
	}
	if s.node.GetRemoved() != nil || s.node.GetKeySha256() != peer.KeySHA256 {
		return nil, identity.Refuse(connect.CodePermissionDenied, clusterv1.RefusalKind_REFUSAL_KIND_NODE_REMOVED,
			fmt.Sprintf("node %s was removed from the cluster", peer.Name),
			"to enrol it again, wipe its state partition and create a ticket: reveille ticket create --node "+peer.Name)
	}
	if s.presence.GetNodeId() != s.node.GetId() { // of a removed namesake
		proto.Reset(s.presence)
		s.presence.NodeId = s.node.GetId()
	}
	return s, s.checkBoot(boot)
}

// checkBoot refuses a boot that another one has followed. A machine cannot be
// in two boots, so two machines run from copies of one disk; both would go on
// taking turns as this node.
func (s *session) checkBoot(boot string) error {
	if boot != s.presence.GetPreviousBootId() {
		return nil
	}
	return identity.Refuse(connect.CodeAborted, clusterv1.RefusalKind_REFUSAL_KIND_INVALID,
		fmt.Sprintf("node %s has joined as boot %s since: another machine uses this node's identity", s.peer.Name, s.presence.GetBootId()),
		"find the copy of this node's disk and wipe its state partition")
}

// join begins a boot; a repeated request changes nothing but the time.
func (s *session) join(boot string, now time.Time) {
	p := s.presence
	p.LastSeen = timestamppb.New(now)
	if p.GetBootId() == boot {
		return
	}
	p.PreviousBootId, p.BootId = p.GetBootId(), boot
	p.Joined = timestamppb.New(now)
	p.Boots++
}

// generationOf reads the generation of a directory that we signed ourselves.
func generationOf(signed *clusterv1.SignedDirectory) uint64 {
	dir := new(clusterv1.Directory)
	if err := proto.Unmarshal(signed.GetDirectory(), dir); err != nil {
		return 0 // the node keeps the one it has
	}
	return dir.GetGeneration()
}
