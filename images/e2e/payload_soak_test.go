//go:build e2e && soak

package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"reveille/boot/cluster/operator"
	"reveille/images/rack"
)

// payloadYAML runs Debian's etcd and containerd out of one payload: what
// docs/services.md shows.
const payloadYAML = `
payloads:
  runtime: {source: /run/reveille/state/payloads/runtime.tar.gz, digest: "DIGEST"}
services:
  etcd:
    command: [/usr/bin/etcd, --config-file, /etc/etcd.yaml]
    payload: runtime
    folders: [/var/lib/etcd]
    files:
      /etc/etcd.yaml:
        mode: "0600"
        content: |
          name: {{.Node.Name | json}}
          data-dir: /var/lib/etcd
          listen-client-urls: "http://127.0.0.1:2379"
          advertise-client-urls: "http://{{.Node.Address4}}:2379"
    ready: {http: "http://127.0.0.1:2379/health"}
    alive: {http: "http://127.0.0.1:2379/health"}
  containerd:
    command: [/usr/bin/containerd]
    payload: runtime
    folders: [/run/containerd, /var/lib/containerd]
    files:
      /etc/containerd/config.toml:
        content: |
          version = 2
          disabled_plugins = ["io.containerd.grpc.v1.cri"]
          [metrics]
          address = "127.0.0.1:1338"
    ready: {http: "http://127.0.0.1:1338/v1/metrics"}
`

// ctrYAML is the cluster's: it asks the node's containerd, out of a root of its
// own, through the folder that both have.
const ctrYAML = `version: 1
secrets: {word: tell-nobody}
payloads:
  tools: {source: /run/reveille/state/payloads/runtime.tar.gz, digest: "DIGEST"}
services:
  ask:
    command: [/usr/bin/ctr, namespaces, create, made-by-ask]
    payload: tools
    folders: [/run/containerd]
    files: {/etc/ask: {content: '{{.Secret "word"}} {{.Cluster.ID}}', mode: "0400"}}
    needs: [containerd]
    restart: never
  list:
    command: [/usr/bin/ctr, namespaces, list]
    payload: tools
    folders: [/run/containerd]
    needs: [containerd]
    restart: never
`

// makePayload makes one of Debian's packages, and says its digest.
func makePayload(t *testing.T, packages ...string) (content []byte, digest string) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "payload.tar.gz")
	cmd := exec.CommandContext(t.Context(), "../../.ci/payload", append([]string{file}, packages...)...)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("make payload: %v", err)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	return content, "sha256:" + hex.EncodeToString(sum[:])
}

// TestPayload: a node runs programs that its image does not have.
func TestPayload(t *testing.T) {
	content, digest := makePayload(t, "etcd-server", "containerd", "runc", "libc6", "libseccomp2")
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{
		Name: "n1", MemoryMiB: 1024, Files: map[string][]byte{"payloads/runtime.tar.gz": content},
		Extra: strings.ReplaceAll(payloadYAML, "DIGEST", digest),
	})
	first := boot(t, ctx, n, "")
	healthy := func(lastBoot string) func(rack.View) bool {
		return func(v rack.View) bool {
			well := 0
			for _, s := range v.Services {
				if s.Healthy && (s.Name == "etcd" || s.Name == "containerd") {
					well++
				}
			}
			return v.State == "joined" && v.BootID != lastBoot && well == 2
		}
	}
	waitFor(t, ctx, r, healthy(""))

	doc := filepath.Join(t.TempDir(), "ask.yaml")
	if err := os.WriteFile(doc, []byte(strings.ReplaceAll(ctrYAML, "DIGEST", digest)), 0o600); err != nil {
		t.Fatal(err)
	}
	var applied operator.Applied
	order(t, ctx, r, &applied, "service", "apply", "n1", doc)
	if !applied.Told || !slices.Equal(applied.Added, []string{"ask", "list"}) {
		t.Errorf("applied %+v", applied)
	}
	ended := func(name string, incarnation uint64) func(rack.View) bool {
		return func(v rack.View) bool {
			return slices.ContainsFunc(v.Services, func(s operator.Service) bool {
				return s.Name == name && s.Incarnation == incarnation && !slices.Contains([]string{"waiting", "starting", "running"}, s.State)
			})
		}
	}
	waitFor(t, ctx, r, ended("ask", 1))
	waitFor(t, ctx, r, ended("list", 1))
	var ordered operator.Ordered
	order(t, ctx, r, &ordered, "service", "start", "n1", "list")
	waitFor(t, ctx, r, ended("list", 2))

	log, err := n.Logs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log, "made-by-ask") {
		t.Error("what one root asked of containerd, another does not see")
	}
	if strings.Contains(log, "tell-nobody") {
		t.Error("a secret is in the log")
	}
	if got := strings.Count(log, "unpacked, digest "+digest); got != 1 {
		t.Errorf("unpacked %d times", got)
	}

	// What the cluster gave is there without it.
	if err := n.PowerCut(); err != nil {
		t.Fatal(err)
	}
	r.StopController()
	if err := n.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	see(t, ctx, n, 0, `join +W`)
	start(t, ctx, r)
	waitFor(t, ctx, r, func(v rack.View) bool { return healthy(first.BootID)(v) && ended("ask", 1)(v) })
}

func waitFor(t *testing.T, ctx context.Context, r *rack.Rack, ok func(rack.View) bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	if v, err := r.WaitFor(ctx, "n1", ok); err != nil {
		t.Fatalf("%v; services are %+v", err, v.Services)
	}
}

// order is a command of the operator whose answer is JSON.
func order(t *testing.T, ctx context.Context, r *rack.Rack, answer any, args ...string) {
	t.Helper()
	out, err := r.Operator(ctx, append(args, "-o", "json")...)
	if err == nil {
		err = json.Unmarshal(out, answer)
	}
	if err != nil {
		t.Fatal(err)
	}
}
