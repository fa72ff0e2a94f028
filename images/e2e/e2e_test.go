//go:build e2e

package e2e

import (
	"context"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"reveille/images/bench"
	"reveille/images/rack"
)

// bootTime is the most that one boot may take on the slowest machine that runs
// these tests: two cores without virtualisation, shared with others. A boot
// takes 6 to 15 s there.
const bootTime = 4 * time.Minute

func newRack(t *testing.T) (*rack.Rack, context.Context) {
	t.Helper()
	build := os.Getenv("REVEILLE_BUILD")
	if build == "" {
		build = "../../build"
	}
	r, err := rack.New(rack.Options{Build: build, Faults: true})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 4*bootTime)
	t.Cleanup(func() {
		cancel()
		if t.Failed() {
			t.Logf("controller: %s", r.ControllerLog())
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r, ctx
}

func start(t *testing.T, ctx context.Context, r *rack.Rack) {
	t.Helper()
	if err := r.StartController(ctx); err != nil {
		t.Fatal(err)
	}
}

func add(t *testing.T, ctx context.Context, r *rack.Rack, m rack.Machine) *rack.Node {
	t.Helper()
	n, err := r.AddNode(ctx, m)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if t.Failed() {
			for i := range max(len(m.Serial), 1) {
				t.Logf("%s ttyS%d:\n%s", m.Name, i, n.Port(i).Bytes())
			}
		}
	})
	return n
}

func boot(t *testing.T, ctx context.Context, n *rack.Node, lastBoot string) rack.View {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	v, err := n.Boot(ctx, lastBoot)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func see(t *testing.T, ctx context.Context, n *rack.Node, port int, pattern string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	if _, err := n.Port(port).Wait(ctx, regexp.MustCompile(pattern)); err != nil {
		t.Fatalf("%s: %v", pattern, err)
	}
}

// read is see for a line of ours, which a console may break at any blank.
func read(t *testing.T, ctx context.Context, n *rack.Node, port int, pattern string) {
	t.Helper()
	see(t, ctx, n, port, strings.ReplaceAll(pattern, " ", `\s+`))
}

// TestEnrolPowerCutJoin is a node's life: it enrols, seals, loses its power,
// joins from the sealed config as the same node; and once more with one copy
// of the config torn.
func TestEnrolPowerCutJoin(t *testing.T) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{Name: "n1", TPM: true})

	first := boot(t, ctx, n, "")
	if !first.Sealed || !strings.Contains(first.Binding, "fragile") {
		t.Errorf("sealed %t, binding %q", first.Sealed, first.Binding)
	}
	if err := n.PowerCut(); err != nil {
		t.Fatal(err)
	}

	second := boot(t, ctx, n, first.BootID)
	see(t, ctx, n, 0, `config        I opened generation \d+, sealed to PCR`)
	if err := n.PowerCut(); err != nil {
		t.Fatal(err)
	}

	if err := bench.WriteDisk(n.DiskImage(), "reveille/config.0", make([]byte, 64<<10)); err != nil {
		t.Fatal(err)
	}
	third := boot(t, ctx, n, second.BootID)
	see(t, ctx, n, 0, `config        W .*config\.0`)

	nodes, err := r.List(ctx)
	if err != nil || len(nodes) != 1 {
		t.Fatalf("%d nodes, %v", len(nodes), err)
	}
	for _, v := range []rack.View{second, third} {
		if v.ID != first.ID || v.KeySHA256 != first.KeySHA256 {
			t.Errorf("another identity: %+v, was %+v", v, first)
		}
	}
	if third.Boots != 3 {
		t.Errorf("%d boots joined", third.Boots)
	}
	logIsComplete(t, ctx, n)
}

// logIsComplete wants the whole kernel log and every stage in the node's log.
func logIsComplete(t *testing.T, ctx context.Context, n *rack.Node) {
	t.Helper()
	log, err := n.Logs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Linux version", "Run /init as init process", "mounts", "steady"} {
		if !strings.Contains(log, want) {
			t.Errorf("no %q in the log", want)
		}
	}
	if strings.Contains(log, "no longer held") {
		t.Errorf("the log has a gap:\n%s", log)
	}
}

// TestFaultsAreNamed corrects one fault after the other: bad parameters, no
// controller, no TPM. The node says each, and never reboots over it.
func TestFaultsAreNamed(t *testing.T) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	ticket, err := r.Ticket(ctx)
	if err != nil {
		t.Fatal(err)
	}
	r.StopController()
	api, err := rack.FreePort()
	if err != nil {
		t.Fatal(err)
	}
	good := r.NodeYAML("n2", ticket, api)
	bad := strings.NewReplacer(
		"name: n2", "nmae: n2",
		"interfaces: [eth0, eth1]", "interfaces: [eth0, eth0]",
		"mode: active-backup", "mode: 7up",
		"10.0.2.15/24,", `10.0.2.15/24, 10.0.2.15/24,`,
	).Replace(good)
	n := add(t, ctx, r, rack.Machine{Name: "n2", Config: bad})

	if err := n.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	read(t, ctx, n, 0, `node\.yaml:2:1: nmae: `)
	read(t, ctx, n, 0, `node\.yaml:\d+:\d+: network\.bonds\.bond0\.interfaces\[1\]: `)
	read(t, ctx, n, 0, `node\.yaml:\d+:\d+: network\.bonds\.bond0\.parameters\.`)
	read(t, ctx, n, 0, `node\.yaml:\d+:\d+: network\.bonds\.bond0\.addresses`)
	see(t, ctx, n, 0, `(?s)parameters    W waiting \d+s, attempt \d+:\s`)
	if n.Reboots() != 0 {
		t.Errorf("rebooted %d times over bad parameters", n.Reboots())
	}
	if err := n.PowerCut(); err != nil {
		t.Fatal(err)
	}

	n.SetNodeYAML([]byte(good))
	if err := n.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	see(t, ctx, n, 0, `(?s)config        W no TPM found.{0,60}tpm:\s+preferred`)
	see(t, ctx, n, 0, `(?s)join +W .{0,80}10\.0\.2\.2:\d+.{0,80}refused`)
	see(t, ctx, n, 0, `(?s)config        W waiting \d+s, attempt \d+:\s+1 of 1\s+endpoints\s+failed`)
	start(t, ctx, r)
	v, err := r.WaitFor(ctx, "n2", rack.Joined(""))
	if err != nil {
		t.Fatal(err)
	}
	if v.Sealed {
		t.Error("sealed without a TPM")
	}
}
