package cluster

import (
	"strings"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"github.com/google/go-cmp/cmp"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/operator"
)

const twoServices = `version: 1
services:
  # stays when etcd goes
  web: {command: [/web]}
  etcd: {command: [/etcd]}
`

func (c *running) apply(node, document string, prune bool) (*clusterv1.ApplyServicesResponse, error) {
	return c.operator.ApplyServices(c.t.Context(), &clusterv1.ApplyServicesRequest{Node: node, File: "s.yaml", Document: []byte(document), Prune: prune})
}

func (c *running) mustApply(node, document string) operator.Applied {
	c.t.Helper()
	resp, err := c.apply(node, document, false)
	if err == nil {
		err = operator.ProblemsOf(resp)
	}
	if err != nil {
		c.t.Fatal(err)
	}
	return operator.AppliedOf(node, resp)
}

func (c *running) order(service string, order clusterv1.OrderServiceRequest_Order) (uint64, error) {
	resp, err := c.operator.OrderService(c.t.Context(), &clusterv1.OrderServiceRequest{Node: "n1", Service: service, Order: order})
	return resp.GetGeneration(), err
}

func (c *running) services() operator.Desired {
	c.t.Helper()
	resp, err := c.operator.ListServices(c.t.Context(), &clusterv1.ListServicesRequest{Node: "n1"})
	if err != nil {
		c.t.Fatal(err)
	}
	return operator.DesiredOf("n1", resp)
}

func (n *node) beat(c *running, has uint64, st *clusterv1.NodeStatus) *clusterv1.DesiredServices {
	c.t.Helper()
	resp, err := n.membership(c).Heartbeat(c.t.Context(), &clusterv1.HeartbeatRequest{BootId: "b1", ServicesGeneration: has, Status: st})
	if err != nil {
		c.t.Fatal(err)
	}
	return resp.GetServices()
}

func TestDesiredServices(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{})
	n := enrolled(c, "n1")
	if got := n.join(c, "b1", nil).GetServices(); got != nil {
		t.Errorf("a node without services was given %v", got)
	}

	want := operator.Applied{Node: "n1", Generation: 1, Added: []string{"web", "etcd"}, Changed: []string{}, Removed: []string{}}
	if diff := cmp.Diff(want, c.mustApply("n1", twoServices)); diff != "" {
		t.Error(diff)
	}
	if got := c.mustApply("n1", twoServices); got.Generation != 1 || len(got.Added) > 0 {
		t.Errorf("the same again: %+v", got)
	}
	got := n.beat(c, 0, nil)
	if got.GetGeneration() != 1 || string(got.GetDocument()) != twoServices {
		t.Errorf("the node was given %v", got)
	}
	if got := n.beat(c, 1, &clusterv1.NodeStatus{ServicesGeneration: 1}); got != nil {
		t.Errorf("the node was given %v again", got)
	}
	if got := n.join(c, "b1", nil).GetServices(); got.GetGeneration() != 1 {
		t.Errorf("a new boot was given %v", got)
	}

	changed := strings.Replace(twoServices, "[/web]", "[/web, -v]", 1)
	if got := c.mustApply("n1", changed); got.Generation != 2 || !cmp.Equal(got.Changed, []string{"web"}) {
		t.Errorf("a change: %+v", got)
	}

	// A store that was restored from a copy knows less than the node.
	if got := n.beat(c, 9, &clusterv1.NodeStatus{ServicesGeneration: 9}); got.GetGeneration() != 2 {
		t.Errorf("a node ahead was given %v", got)
	}
	if got := c.mustApply("n1", twoServices); got.Generation != 10 {
		t.Errorf("generation %d after the node's 9", got.Generation)
	}
}

func TestDocumentsAreCheckedWhenApplied(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{})
	n := enrolled(c, "n1")
	n.join(c, "b1", &clusterv1.NodeStatus{Services: []*clusterv1.ServiceStatus{{Name: "base"}}})
	resp, err := c.apply("n1", "version: 1\nservices:\n  base: {command: [/a]}\n  web: {command: [/web], needs: [bas, base], restrt: never}\n", false)
	if err != nil {
		t.Fatal(err)
	}
	problems := operator.ProblemsOf(resp)
	wants := `s.yaml:3:3: services.base: is defined by the node's own node.yaml
s.yaml:4:34: services.web.needs[0]: is a service that nobody defines; did you mean "base"?
s.yaml:4:46: services.web.restrt: unknown key; did you mean "restart"?`
	if problems == nil || problems.Error() != wants {
		t.Errorf("got %v\nwant %s", problems, wants)
	}
	if got := c.services(); got.Generation != 0 || len(got.Services) != 1 {
		t.Errorf("kept %+v", got)
	}
	resp, err = c.apply("n1", "version: 1\n# "+strings.Repeat("x", 257<<10), false)
	if err != nil || len(resp.GetProblems()) != 1 {
		t.Errorf("a document that is too large: %v, %v", resp, err)
	}
	_, err = c.apply("n9", twoServices, false)
	wantRefusal(t, err, connect.CodeNotFound, clusterv1.RefusalKind_REFUSAL_KIND_NODE_UNKNOWN)

	c.mustApply("n1", twoServices)
	_, err = c.apply("n1", "version: 1\nservices: {web: {command: [/web]}}\n", false)
	wantRefusal(t, err, connect.CodeInvalidArgument, clusterv1.RefusalKind_REFUSAL_KIND_INVALID)
	if !strings.Contains(err.Error(), "lacks service etcd") {
		t.Errorf("got %v", err)
	}
	resp, err = c.apply("n1", "version: 1\nservices: {web: {command: [/web]}}\n", true)
	if err != nil || !cmp.Equal(resp.GetRemoved(), []string{"etcd"}) {
		t.Errorf("got %v, %v", resp, err)
	}
}

func TestServiceOrders(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{})
	n := enrolled(c, "n1")
	n.join(c, "b1", &clusterv1.NodeStatus{Services: []*clusterv1.ServiceStatus{{Name: "base", State: "running", Enabled: true, Ready: true}}})
	c.mustApply("n1", twoServices)
	const start, stop, remove = clusterv1.OrderServiceRequest_ORDER_START, clusterv1.OrderServiceRequest_ORDER_STOP, clusterv1.OrderServiceRequest_ORDER_REMOVE
	for i, step := range []struct {
		service string
		order   clusterv1.OrderServiceRequest_Order
		want    uint64
	}{
		{"web", stop, 2}, {"web", stop, 2}, {"base", stop, 3}, {"etcd", start, 4}, {"etcd", start, 5}, {"etcd", remove, 6},
	} {
		got, err := c.order(step.service, step.order)
		if err != nil || got != step.want {
			t.Errorf("step %d: generation %d, %v, want %d", i, got, err, step.want)
		}
	}
	for _, wrong := range []struct {
		service string
		order   clusterv1.OrderServiceRequest_Order
	}{{"etcd", remove}, {"base", remove}, {"nosuch", start}, {"etcd", stop}, {"web", 99}} {
		_, err := c.order(wrong.service, wrong.order)
		wantRefusal(t, err, connect.CodeInvalidArgument, clusterv1.RefusalKind_REFUSAL_KIND_INVALID)
	}
	got := n.beat(c, 0, &clusterv1.NodeStatus{ServicesGeneration: 6, Services: []*clusterv1.ServiceStatus{{Name: "base", State: "stopped"}}})
	if doc := string(got.GetDocument()); strings.Contains(doc, "etcd:") || !strings.Contains(doc, "# stays") {
		t.Errorf("the document is now %s", doc)
	}
	var wishes []string
	for _, w := range got.GetWishes() {
		if w.GetStopped() {
			wishes = append(wishes, w.GetService())
		}
	}
	if diff := cmp.Diff([]string{"web", "base"}, wishes); diff != "" {
		t.Error(diff)
	}
	var rows []string
	for _, s := range c.services().Services {
		rows = append(rows, s.Name+" "+s.Defined+" "+s.Wanted+" "+s.State)
	}
	if diff := cmp.Diff([]string{"base node stopped stopped", "web cluster stopped unknown"}, rows); diff != "" {
		t.Error(diff)
	}
}

// What a removed node was to run is not its namesake's.
func TestServicesOfReplacedNode(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{})
	enrolled(c, "n1")
	c.mustApply("n1", twoServices)
	if _, err := c.operator.RemoveNode(t.Context(), &clusterv1.RemoveNodeRequest{Name: "n1"}); err != nil {
		t.Fatal(err)
	}
	_, err := c.apply("n1", twoServices, false)
	wantRefusal(t, err, connect.CodeFailedPrecondition, clusterv1.RefusalKind_REFUSAL_KIND_NODE_REMOVED)
	next := enrolled(c, "n1")
	if got := next.join(c, "b1", nil).GetServices(); len(got.GetDocument()) > 0 || got.GetGeneration() != 1 {
		t.Errorf("the new node was given %v", got)
	}
	if got := c.mustApply("n1", twoServices); got.Generation != 2 || len(got.Added) != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestNudge(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{})
	n := enrolled(c, "n1")
	nudges.Store(0)
	n.join(c, "b1", &clusterv1.NodeStatus{ApiAddresses: []string{refusing(t), serveNodeAPI(t, c, n)}})
	if got := c.mustApply("n1", twoServices); !got.Told || nudges.Load() != 1 {
		t.Errorf("told %v, %d times", got.Told, nudges.Load())
	}
	n.join(c, "b1", &clusterv1.NodeStatus{ApiAddresses: []string{refusing(t)}})
	if got := c.mustApply("n1", strings.Replace(twoServices, "/etcd", "/etcd2", 1)); got.Told {
		t.Error("told a node that does not answer")
	}
}

// nudges counts what fakeNode was asked for.
var nudges atomic.Int32
