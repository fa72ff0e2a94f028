package cluster

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/storev1"
	"reveille/boot/identity"
)

func TestEnrol(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{})

	t.Run("a lost reply is repeated with the same grant", func(t *testing.T) {
		n, ticket := newNodeKey(t, "repeat"), c.ticket(&clusterv1.CreateTicketRequest{})
		first, err := c.enrolment().Enrol(t.Context(), n.request(t, ticket))
		if err != nil {
			t.Fatal(err)
		}
		again, err := c.enrolment().Enrol(t.Context(), n.request(t, ticket)) // another CSR of the same key
		if err != nil {
			t.Fatal(err)
		}
		again.ClusterTime = first.GetClusterTime()
		if !proto.Equal(first, again) {
			t.Errorf("got %v, then %v", first, again)
		}
		n.accept(c, again)
		if got := c.show("repeat"); got.GetState() != clusterv1.NodeState_NODE_STATE_PENDING || got.GetTpmMode() != clusterv1.TpmMode_TPM_MODE_REQUIRED {
			t.Errorf("got %v", got)
		}
	})

	t.Run("the same machine may come with another ticket, which is used up", func(t *testing.T) {
		n := enrolled(c, "twice")
		second := c.ticket(&clusterv1.CreateTicketRequest{})
		resp, err := c.enrolment().Enrol(t.Context(), n.request(t, second))
		if err != nil {
			t.Fatal(err)
		}
		if resp.GetNodeId() != n.grant.NodeID || !n.grant.Certificate.Equal(mustParse(t, resp.GetCertificate())) {
			t.Error("another identity for the same machine")
		}
		_, err = c.enrolment().Enrol(t.Context(), newNodeKey(t, "third").request(t, second))
		wantRefusal(t, err, connect.CodePermissionDenied, clusterv1.RefusalKind_REFUSAL_KIND_TICKET_USED)
	})

	t.Run("a ticket may be bound to a name", func(t *testing.T) {
		ticket := c.ticket(&clusterv1.CreateTicketRequest{Node: "bound"})
		_, err := c.enrolment().Enrol(t.Context(), newNodeKey(t, "unbound").request(t, ticket))
		wantRefusal(t, err, connect.CodePermissionDenied, clusterv1.RefusalKind_REFUSAL_KIND_TICKET_OTHER_NODE)
		if _, err := c.enrolment().Enrol(t.Context(), newNodeKey(t, "bound").request(t, " "+ticket+"\n")); err != nil {
			t.Error(err)
		}
	})

	t.Run("a refusal uses nothing up", func(t *testing.T) {
		n, ticket := newNodeKey(t, "notpm"), c.ticket(&clusterv1.CreateTicketRequest{})
		req := n.request(t, ticket)
		req.TpmMode, req.TpmPresent = clusterv1.TpmMode_TPM_MODE_REQUIRED, false
		_, err := c.enrolment().Enrol(t.Context(), req)
		wantRefusal(t, err, connect.CodeFailedPrecondition, clusterv1.RefusalKind_REFUSAL_KIND_TPM_REQUIRED)
		req.TpmMode = clusterv1.TpmMode_TPM_MODE_PREFERRED
		resp, err := c.enrolment().Enrol(t.Context(), req)
		if err != nil || resp.GetTpmMode() != clusterv1.TpmMode_TPM_MODE_DISABLED {
			t.Errorf("got %v, %v", resp, err)
		}
	})
}

func TestEnrolRefusesBadRequests(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{})
	for name, spoil := range map[string]func(*clusterv1.EnrolRequest){
		"name":            func(r *clusterv1.EnrolRequest) { r.Name = "../n1\x1b[2J" },
		"no name":         func(r *clusterv1.EnrolRequest) { r.Name = "" },
		"CSR of another":  func(r *clusterv1.EnrolRequest) { r.Name = "n2" },
		"CSR changed":     func(r *clusterv1.EnrolRequest) { r.Csr[len(r.Csr)-1] ^= 1 },
		"no CSR":          func(r *clusterv1.EnrolRequest) { r.Csr = nil },
		"enormous ticket": func(r *clusterv1.EnrolRequest) { r.Ticket = strings.Repeat("x", 1000) },
	} {
		req := newNodeKey(t, "n1").request(t, "rv1-x")
		spoil(req)
		_, err := c.enrolment().Enrol(t.Context(), req)
		if r := identity.RefusalOf(err); r.GetKind() != clusterv1.RefusalKind_REFUSAL_KIND_INVALID || strings.ContainsRune(r.GetMessage(), 0x1b) {
			t.Errorf("%s: got %v", name, err)
		}
	}
	req := newNodeKey(t, "n1").request(t, "rv1-x")
	req.BuildId = strings.Repeat("x", 1<<20)
	_, err := c.enrolment().Enrol(t.Context(), req)
	wantCode(t, err, connect.CodeResourceExhausted)
}

func TestConcurrentUseOfOneTicketHasOneWinner(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{})
	const machines = 8
	ticket := c.ticket(&clusterv1.CreateTicketRequest{})
	errs := make([]error, machines)
	var wg sync.WaitGroup
	for i := range machines {
		n := newNodeKey(t, "n"+string(rune('a'+i)))
		req, client := n.request(t, ticket), c.enrolment()
		wg.Go(func() { _, errs[i] = client.Enrol(t.Context(), req) })
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		wantRefusal(t, err, connect.CodePermissionDenied, clusterv1.RefusalKind_REFUSAL_KIND_TICKET_USED)
	}
	resp, err := c.operator.ListNodes(t.Context(), &clusterv1.ListNodesRequest{})
	if err != nil || won != 1 || len(resp.GetNodes()) != 1 {
		t.Errorf("%d won and %d nodes exist, want 1 and 1 (%v)", won, len(resp.GetNodes()), err)
	}
}

func TestTicketLifetime(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{})
	for _, ttl := range []time.Duration{-time.Second, time.Millisecond, maxTicketTTL + 1} {
		_, err := c.operator.CreateTicket(t.Context(), &clusterv1.CreateTicketRequest{Ttl: durationpb.New(ttl)})
		wantRefusal(t, err, connect.CodeInvalidArgument, clusterv1.RefusalKind_REFUSAL_KIND_INVALID)
	}
	_, err := c.operator.CreateTicket(t.Context(), &clusterv1.CreateTicketRequest{Node: "N 1"})
	wantRefusal(t, err, connect.CodeInvalidArgument, clusterv1.RefusalKind_REFUSAL_KIND_INVALID)
	resp, err := c.operator.CreateTicket(t.Context(), &clusterv1.CreateTicketRequest{})
	if left := time.Until(resp.GetExpires().AsTime()); err != nil || left < 23*time.Hour || left > defaultTicketTTL {
		t.Errorf("by default a ticket lives for %s, %v", left, err)
	}
}

// Short names for the table below.
const (
	unknown = clusterv1.RefusalKind_REFUSAL_KIND_TICKET_UNKNOWN
	isUsed  = clusterv1.RefusalKind_REFUSAL_KIND_TICKET_USED
	expired = clusterv1.RefusalKind_REFUSAL_KIND_TICKET_EXPIRED
	other   = clusterv1.RefusalKind_REFUSAL_KIND_TICKET_OTHER_NODE
	taken   = clusterv1.RefusalKind_REFUSAL_KIND_NAME_TAKEN
	gone    = clusterv1.RefusalKind_REFUSAL_KIND_NODE_REMOVED
	noTPM   = clusterv1.RefusalKind_REFUSAL_KIND_TPM_REQUIRED
	bad     = clusterv1.RefusalKind_REFUSAL_KIND_INVALID
	none    = clusterv1.RefusalKind_REFUSAL_KIND_UNSPECIFIED
)

// The policy without a store.
func TestDecide(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	stamp := func(d time.Duration) *timestamppb.Timestamp { return timestamppb.New(now.Add(d)) }
	base := func() *claim {
		return &claim{now: now, name: "n1", key: "k1", ticketKnown: true,
			ticket: &storev1.Ticket{Expires: stamp(time.Hour)}, node: &storev1.Node{}, owner: &storev1.KeyOwner{}}
	}
	used := func(c *claim, key, name string) {
		c.ticket.UsedByKey, c.ticket.UsedByNode, c.ticket.Used = key, name, stamp(-time.Minute)
	}
	for _, tc := range []struct {
		name   string
		change func(*claim)
		want   verdict
		kind   clusterv1.RefusalKind
	}{
		{"fresh", func(*claim) {}, newNode, none},
		{"unknown ticket", func(c *claim) { c.ticketKnown = false }, refused, unknown},
		{"expired", func(c *claim) { c.ticket.Expires = stamp(0) }, refused, expired},
		{"bound to it", func(c *claim) { c.ticket.Node = "n1" }, newNode, none},
		{"bound to another", func(c *claim) { c.ticket.Node = "n2" }, refused, other},
		{"bound to another and used by it", func(c *claim) { c.ticket.Node = "n2"; used(c, "k2", "n2") }, refused, other},
		{"used by another key", func(c *claim) { used(c, "k2", "n1") }, refused, isUsed},
		{"used by its key under another name", func(c *claim) { used(c, "k1", "n2") }, refused, isUsed},
		{"used by itself", func(c *claim) { used(c, "k1", "n1"); c.node = &storev1.Node{Id: "i", KeySha256: "k1"} }, grantedBefore, none},
		{"used by itself, expired since", func(c *claim) {
			used(c, "k1", "n1")
			c.ticket.Expires, c.node = stamp(-time.Hour), &storev1.Node{Id: "i", KeySha256: "k1"}
		}, grantedBefore, none},
		{"used by itself, removed since", func(c *claim) {
			used(c, "k1", "n1")
			c.node = &storev1.Node{Id: "i", KeySha256: "k1", Removed: stamp(0)}
		}, refused, gone},
		{"used by itself, replaced since", func(c *claim) { used(c, "k1", "n1"); c.node = &storev1.Node{Id: "i", KeySha256: "k2"} }, refused, gone},
		{"known machine, new ticket", func(c *claim) { c.node = &storev1.Node{Id: "i", KeySha256: "k1"}; c.owner.Node = "n1" }, newTicketOnly, none},
		{"name taken", func(c *claim) { c.node = &storev1.Node{Id: "i", KeySha256: "k2"} }, refused, taken},
		{"name of a removed node", func(c *claim) { c.node = &storev1.Node{Id: "i", KeySha256: "k2", Removed: stamp(0)} }, newNode, none},
		{"removed node with a new ticket", func(c *claim) { c.node = &storev1.Node{Id: "i", KeySha256: "k1", Removed: stamp(0)} }, newNode, none},
		{"key of another node", func(c *claim) { c.owner.Node = "n2" }, refused, bad},
		{"TPM required", func(c *claim) { c.mode = clusterv1.TpmMode_TPM_MODE_REQUIRED }, refused, noTPM},
		{"TPM required and there", func(c *claim) { c.mode, c.tpm = clusterv1.TpmMode_TPM_MODE_REQUIRED, true }, newNode, none},
	} {
		c := base()
		tc.change(c)
		got, err := c.decide()
		if got != tc.want || identity.RefusalOf(err).GetKind() != tc.kind || (err == nil) != (tc.kind == none) {
			t.Errorf("%s: got %v, %v, want %v, %v", tc.name, got, err, tc.want, tc.kind)
		}
	}
}

func TestResolveTPM(t *testing.T) {
	t.Parallel()
	const (
		required  = clusterv1.TpmMode_TPM_MODE_REQUIRED
		preferred = clusterv1.TpmMode_TPM_MODE_PREFERRED
		disabled  = clusterv1.TpmMode_TPM_MODE_DISABLED
		unset     = clusterv1.TpmMode_TPM_MODE_UNSPECIFIED // as preferred, the default of node.yaml
	)
	for _, tc := range []struct {
		mode clusterv1.TpmMode
		tpm  bool
		want clusterv1.TpmMode
	}{
		{required, true, required}, {preferred, true, required}, {preferred, false, disabled},
		{disabled, true, disabled}, {disabled, false, disabled}, {unset, true, required}, {unset, false, disabled},
	} {
		if got := (&claim{mode: tc.mode, tpm: tc.tpm}).resolveTPM(); got != tc.want {
			t.Errorf("%v with TPM %v: got %v, want %v", tc.mode, tc.tpm, got, tc.want)
		}
	}
}

func TestTransactGivesUp(t *testing.T) {
	t.Parallel()
	tries := 0
	err := transact(t.Context(), func() error { tries++; return errConflict })
	if !errors.Is(err, errConflict) || tries != maxConflicts {
		t.Errorf("got %v after %d tries", err, tries)
	}
}
