package cluster

import (
	"crypto/x509"
	"strings"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/clusterv1/clusterv1connect"
	"reveille/boot/cluster/dial"
	"reveille/boot/cluster/storev1"
	"reveille/boot/identity"
)

func TestJoinAndHeartbeat(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{Advertise: []string{"10.0.2.2:0"}})
	n := enrolled(c, "n1")
	if got := n.grant.Directory.GetControllers()[0].GetAddresses()[0]; got != "10.0.2.2:"+port(c.addr) {
		t.Errorf("the directory says %s", got)
	}

	st := &clusterv1.NodeStatus{Stage: "join", Sealed: true, Addresses: []string{"10.0.2.15", "fd00:5::15"},
		Consoles: []*clusterv1.ConsoleStatus{{Name: "ttyS0", WrittenBytes: 4096, DroppedLines: 3, Stalled: true}}}
	resp := n.join(c, "b1", st)
	if resp.GetHeartbeatInterval().AsDuration() != defaultHeartbeat || time.Since(resp.GetClusterTime().AsTime()).Abs() > time.Minute {
		t.Errorf("got %v", resp)
	}
	if _, err := identity.VerifyDirectory(resp.GetDirectory(), n.grant.CA); err != nil {
		t.Error(err)
	}
	first := c.show("n1")
	if first.GetState() != clusterv1.NodeState_NODE_STATE_JOINED || first.GetBoots() != 1 || !proto.Equal(first.GetStatus(), st) {
		t.Errorf("got %v", first)
	}

	n.join(c, "b1", st) // a lost reply
	if again := c.show("n1"); again.GetBoots() != 1 || !proto.Equal(again.GetJoined(), first.GetJoined()) {
		t.Errorf("a repeated join counts: %v", again)
	}

	st.Stage, st.AgentCrashes = "steady", 2
	beat := func(boot string, generation uint64) (*clusterv1.HeartbeatResponse, error) {
		return n.membership(c).Heartbeat(t.Context(), &clusterv1.HeartbeatRequest{BootId: boot, DirectoryGeneration: generation, Status: st})
	}
	if hb, err := beat("b1", n.grant.Directory.GetGeneration()); err != nil || hb.GetDirectory() != nil {
		t.Errorf("got %v, %v; the node has this directory", hb, err)
	}
	if hb, err := beat("b1", 0); err != nil || hb.GetDirectory() == nil {
		t.Errorf("got %v, %v; the node's directory is old", hb, err)
	}
	if got := c.show("n1"); got.GetStatus().GetAgentCrashes() != 2 || got.GetStatus().GetStage() != "steady" {
		t.Errorf("got %v", got)
	}

	if _, err := beat("b2", 0); !identity.IsUnknownBoot(err) {
		t.Errorf("a boot that has not joined: got %v", err)
	}
	n.join(c, "b2", st)
	if got := c.show("n1"); got.GetBoots() != 2 || got.GetBootId() != "b2" || got.GetId() != n.grant.NodeID {
		t.Errorf("got %v", got)
	}
	_, err := beat("b1", 0) // two machines with one disk's copies
	wantRefusal(t, err, connect.CodeAborted, clusterv1.RefusalKind_REFUSAL_KIND_INVALID)
	_, err = n.membership(c).Join(t.Context(), &clusterv1.JoinRequest{BootId: "b1"})
	wantRefusal(t, err, connect.CodeAborted, clusterv1.RefusalKind_REFUSAL_KIND_INVALID)
	_, err = n.membership(c).Join(t.Context(), &clusterv1.JoinRequest{})
	wantRefusal(t, err, connect.CodeInvalidArgument, clusterv1.RefusalKind_REFUSAL_KIND_INVALID)
}

func TestRemove(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{})
	n := enrolled(c, "n1")
	n.join(c, "b1", nil)
	remove := func(name string) error {
		_, err := c.operator.RemoveNode(t.Context(), &clusterv1.RemoveNodeRequest{Name: name})
		return err
	}
	for range 2 { // any step may be done twice
		if err := remove("n1"); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.show("n1").GetState(); got != clusterv1.NodeState_NODE_STATE_REMOVED {
		t.Errorf("got %v", got)
	}
	_, err := n.membership(c).Join(t.Context(), &clusterv1.JoinRequest{BootId: "b2"})
	wantRefusal(t, err, connect.CodePermissionDenied, clusterv1.RefusalKind_REFUSAL_KIND_NODE_REMOVED)
	_, err = n.membership(c).Heartbeat(t.Context(), &clusterv1.HeartbeatRequest{BootId: "b1"})
	wantRefusal(t, err, connect.CodePermissionDenied, clusterv1.RefusalKind_REFUSAL_KIND_NODE_REMOVED)
	wantRefusal(t, remove("n9"), connect.CodeNotFound, clusterv1.RefusalKind_REFUSAL_KIND_NODE_UNKNOWN)
	wantRefusal(t, remove("No"), connect.CodeInvalidArgument, clusterv1.RefusalKind_REFUSAL_KIND_INVALID)

	// The name is free; the removed machine stays out.
	next := enrolled(c, "n1")
	if got := c.show("n1"); got.GetState() != clusterv1.NodeState_NODE_STATE_PENDING || got.GetBoots() != 0 {
		t.Errorf("the new machine begins as %v", got)
	}
	next.join(c, "b1", nil)
	_, err = n.membership(c).Join(t.Context(), &clusterv1.JoinRequest{BootId: "b3"})
	wantRefusal(t, err, connect.CodePermissionDenied, clusterv1.RefusalKind_REFUSAL_KIND_NODE_REMOVED)

	_, err = c.enrolment().Enrol(t.Context(), newNodeKey(t, "n1").request(t, c.ticket(&clusterv1.CreateTicketRequest{})))
	wantRefusal(t, err, connect.CodeAlreadyExists, clusterv1.RefusalKind_REFUSAL_KIND_NAME_TAKEN)
	cloned := &node{name: "n2", key: next.key}
	_, err = c.enrolment().Enrol(t.Context(), cloned.request(t, c.ticket(&clusterv1.CreateTicketRequest{})))
	wantRefusal(t, err, connect.CodeAlreadyExists, clusterv1.RefusalKind_REFUSAL_KIND_INVALID)
}

func TestRoles(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{})
	n := enrolled(c, "n1")
	asNode := clusterv1connect.NewOperatorServiceClient(
		c.client(identity.ClientTLS(c.context.CA, n.grant.TLS(n.key), identity.Peer{Role: identity.RoleController}, nil)), dial.BaseURL)
	_, err := asNode.ListNodes(t.Context(), &clusterv1.ListNodesRequest{})
	wantCode(t, err, connect.CodePermissionDenied)
	stream, err := asNode.NodeLogs(t.Context(), &clusterv1.NodeLogsRequest{Node: "n1"})
	if err != nil {
		t.Fatal(err)
	}
	if stream.Receive() {
		t.Error("a node read another's log")
	}
	wantCode(t, stream.Err(), connect.CodePermissionDenied)
	_ = stream.Close()

	asNobody := clusterv1connect.NewOperatorServiceClient(c.client(identity.PinnedClientTLS(c.pin, nil)), dial.BaseURL)
	_, err = asNobody.CreateTicket(t.Context(), &clusterv1.CreateTicketRequest{})
	wantCode(t, err, connect.CodeUnauthenticated)

	op := identity.Certificate(c.context.Certificate, c.context.CA, c.context.Key)
	_, err = c.membership(op).Join(t.Context(), &clusterv1.JoinRequest{BootId: "b"})
	wantCode(t, err, connect.CodePermissionDenied)

	foreign, _ := otherCA(t, identity.RoleOperator, "op")
	_, err = c.membership(foreign).Join(t.Context(), &clusterv1.JoinRequest{BootId: "b"})
	if err == nil { // TLS 1.3 refuses it after the client's handshake: to a reader's eyes, or to a writer's
		t.Error("a certificate of another CA joined")
	}
	c.show("n1") // and the controller serves on

	// A certificate of our CA for a node that the store does not know.
	stranger := newNodeKey(t, "n7")
	cert, err := storedAuthority(t, c).Issue(identity.RoleNode, "n7", stranger.key.Public(), time.Now(), 0)
	if err != nil {
		t.Fatal(err)
	}
	second := startController(t, Config{DataDir: c.dir}) // storedAuthority has stopped the first
	_, err = second.membership(identity.Certificate(cert, c.context.CA, stranger.key)).Join(t.Context(), &clusterv1.JoinRequest{BootId: "b"})
	wantRefusal(t, err, connect.CodeNotFound, clusterv1.RefusalKind_REFUSAL_KIND_NODE_UNKNOWN)
}

func TestHeartbeatTextIsCleaned(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{})
	n := enrolled(c, "n1")
	long := strings.Repeat("ä", 4096)
	st := &clusterv1.NodeStatus{Stage: "join\x1b[31m\n", Reason: long, LastCrash: "a\x00b", LastBootEnd: "power\x00loss", LastBootReason: "a\nb",
		Addresses: []string{"10.0.0.1", "<script>", "fe80::1%eth0"}, ApiAddresses: []string{"10.0.0.1:1", "10.0.0.1"}, Uptime: &durationpb.Duration{Seconds: -1, Nanos: 1}}
	for range 40 {
		st.Consoles = append(st.Consoles, &clusterv1.ConsoleStatus{Name: "tty\t0"})
		st.Addresses = append(st.Addresses, "10.0.0.2")
		st.Links = append(st.Links, &clusterv1.LinkStatus{Name: "eth\n0", Problem: "a\tb", Ports: []*clusterv1.LinkPort{{Name: "\x1b"}}})
	}
	n.join(c, "b\r1", st)
	got := c.show("n1")
	if got.GetBootId() != "b?1" || got.GetStatus().GetStage() != "join?[31m?" || got.GetStatus().GetLastCrash() != "a?b" ||
		got.GetStatus().GetLastBootEnd() != "power?loss" || got.GetStatus().GetLastBootReason() != "a?b" {
		t.Errorf("got %v", got)
	}
	if reason := got.GetStatus().GetReason(); len(reason) > maxReason || !strings.HasSuffix(reason, "ä...") {
		t.Errorf("reason has %d bytes and ends in %q", len(reason), reason[len(reason)-8:])
	}
	if l := len(got.GetStatus().GetConsoles()); l != maxList {
		t.Errorf("%d consoles", l)
	}
	if l := got.GetStatus().GetLinks(); len(l) != maxList || l[0].GetName() != "eth?0" || l[0].GetProblem() != "a?b" || l[0].GetPorts()[0].GetName() != "?" {
		t.Errorf("%d links, %v", len(l), l[0])
	}
	if a := got.GetStatus().GetAddresses(); len(a) != maxList || a[0] != "10.0.0.1" || a[1] != "fe80::1" || len(got.GetStatus().GetApiAddresses()) != 1 {
		t.Errorf("addresses %v %v", a, got.GetStatus().GetApiAddresses())
	}
	if got.GetStatus().GetUptime() != nil {
		t.Errorf("uptime %v", got.GetStatus().GetUptime())
	}
}

func TestViewComputesLost(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	const interval = 5 * time.Second
	for _, tc := range []struct {
		name     string
		silence  time.Duration
		boot, id string
		removed  bool
		want     clusterv1.NodeState
	}{
		{"never joined", 0, "", "i", false, clusterv1.NodeState_NODE_STATE_PENDING},
		{"fresh", time.Second, "b", "i", false, clusterv1.NodeState_NODE_STATE_JOINED},
		{"from a controller whose clock is ahead", -time.Second, "b", "i", false, clusterv1.NodeState_NODE_STATE_JOINED},
		{"three intervals", 3 * interval, "b", "i", false, clusterv1.NodeState_NODE_STATE_JOINED},
		{"more", 3*interval + 1, "b", "i", false, clusterv1.NodeState_NODE_STATE_LOST},
		{"removed", time.Hour, "b", "i", true, clusterv1.NodeState_NODE_STATE_REMOVED},
		{"presence of a removed namesake", time.Second, "b", "old", false, clusterv1.NodeState_NODE_STATE_PENDING},
	} {
		m := member{&storev1.Node{Id: "i"}, &storev1.Presence{NodeId: tc.id, BootId: tc.boot, LastSeen: timestamppb.New(now.Add(-tc.silence))}}
		if tc.removed {
			m.node.Removed = timestamppb.New(now)
		}
		if got := m.view(now, interval).GetState(); got != tc.want {
			t.Errorf("%s: got %v, want %v", tc.name, got, tc.want)
		}
	}
}

// Of a service on a node that does not report nothing is known, and no data is
// not healthy.
func TestServicesOfALostNodeAreUnknown(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	st := &clusterv1.NodeStatus{Services: []*clusterv1.ServiceStatus{{Name: "vm", State: "running", Enabled: true, Ready: true, Verdict: "alive"}}}
	m := member{&storev1.Node{Id: "i"}, &storev1.Presence{NodeId: "i", BootId: "b", LastSeen: timestamppb.New(now), Status: st}}
	if got := m.view(now, time.Second).GetStatus().GetServices()[0]; got.GetState() != "running" || !got.GetReady() {
		t.Errorf("on a node that reports: %v", got)
	}
	got := m.view(now.Add(time.Minute), time.Second).GetStatus().GetServices()[0]
	if got.GetState() != "unknown" || got.GetReady() || got.GetVerdict() != "unknown" || got.GetReason() != "no news of the node; it was running when last heard of" {
		t.Errorf("on a lost node: %v", got)
	}
	if st.GetServices()[0].GetState() != "running" {
		t.Error("the stored status was changed")
	}
}

func TestPrintable(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "plain": "plain", "tab\tnl\n": "tab?nl?", "\xff": "?", "12345678": "12345678", "123456789": "12345...",
		"ääääää": "ää...", "\u202ex": "?x",
	} {
		if got := printable(in, 8); got != want {
			t.Errorf("printable(%q) = %q, want %q", in, got, want)
		}
	}
	if got, want := printableLines("a\n\tb\r\x1b\n", 20), "a\n\tb??\n"; got != want {
		t.Errorf("printableLines: %q, want %q", got, want)
	}
}

func mustParse(t *testing.T, der []byte) *x509.Certificate {
	t.Helper()
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return cert
}
