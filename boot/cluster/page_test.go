package cluster

import (
	"crypto/tls"
	"io"
	"net/http"
	"strings"
	"testing"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/dial"
	"reveille/boot/identity"
)

// The page is for operators, shows what is wrong first, and shows text as text.
func TestPage(t *testing.T) {
	t.Parallel()
	c := startController(t, Config{})
	well, ill := enrolled(c, "a-well"), enrolled(c, "b-ill")
	well.join(c, "b1", &clusterv1.NodeStatus{Stage: "steady", Services: []*clusterv1.ServiceStatus{{Name: "etcd", State: "running", Enabled: true, Ready: true}}})
	ill.join(c, "b2", &clusterv1.NodeStatus{Stage: "steady", Services: []*clusterv1.ServiceStatus{
		{Name: "etcd", State: "running", Enabled: true, Ready: true},
		{Name: "vm", State: "failed", Enabled: true, Reason: "<script>signal 9</script>", Verdict: "gone"},
	}})
	get := func(client *http.Client) (int, string) {
		resp, err := client.Get(dial.BaseURL + "/")
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		return resp.StatusCode, string(body)
	}
	as := func(cert tls.Certificate) *http.Client {
		return c.client(identity.ClientTLS(c.context.CA, cert, identity.Peer{Role: identity.RoleController}, nil))
	}
	status, body := get(as(identity.Certificate(c.context.Certificate, c.context.CA, c.context.Key)))
	for _, part := range []string{"2 nodes", "b-ill", "vm", "&lt;script&gt;signal 9", "etcd", "a-well"} {
		at := strings.Index(body, part)
		if at < 0 {
			t.Fatalf("%d, no %q in its place in:\n%s", status, part, body)
		}
		body = body[at:]
	}
	if status, _ := get(as(well.grant.TLS(well.key))); status != http.StatusForbidden {
		t.Errorf("a node got %d", status)
	}
	if status, _ := get(c.client(identity.PinnedClientTLS(c.pin, nil))); status != http.StatusUnauthorized {
		t.Errorf("a stranger got %d", status)
	}
}
