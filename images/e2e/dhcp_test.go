//go:build e2e

package e2e

import (
	"strings"
	"testing"

	"reveille/images/rack"
)

// TestDHCP: a node whose bond has its address from the network's server, QEMU's
// own, joins. Its agent dies; the next one goes on with the same lease and
// writes nothing.
func TestDHCP(t *testing.T) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	ticket, err := r.Ticket(ctx)
	if err != nil {
		t.Fatal(err)
	}
	api, err := rack.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	static := r.NodeYAML("n1", ticket, api)
	config := strings.Replace(static, "addresses: ["+rack.Address+`/24, "fd00:5::15/64"]`, "dhcp4: true", 1)
	if config == static {
		t.Fatal("node.yaml has no addresses to replace")
	}
	n := add(t, ctx, r, rack.Machine{Name: "n1", Config: config, Append: "reveille.fault=agent-panic@steady"})
	if err := n.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	v, err := r.WaitFor(ctx, "n1", func(v rack.View) bool { return rack.Joined("")(v) && v.AgentCrashes == 1 })
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(v.Addresses, " "); !strings.Contains(got, rack.Address) {
		t.Errorf("addresses %s", got)
	}
	read(t, ctx, n, 0, `netcfg I bond0: leased 10\.0\.2\.15/24 from 10\.0\.2\.2 for 2[34]h`)
}
