package boot

import (
	"context"
	"fmt"
	"maps"
	"net"
	"strings"
	"testing"
	"testing/fstest"

	"reveille/boot/params"
	"reveille/boot/proc"
)

// A disk that comes after its agent has gone on to another source changes
// nothing in this boot, and one that is pulled neither.
func TestParametersAreThoseOfTheBoot(t *testing.T) {
	document := func(name string) *fstest.MapFile {
		return &fstest.MapFile{Data: fmt.Appendf(nil, "version: 1\nname: %s\ncluster: {endpoints: [\"10.0.0.1:7443\"], ca: \"sha256:%s\"}\nnetwork: {version: 2}\nsecrets: {s: a-secret}\n", name, strings.Repeat("0a", 32))}
	}
	baked := fstest.MapFS{"proc/cmdline": {Data: []byte("quiet\n")}, "etc/reveille/node.yaml": document("baked")}
	late := maps.Clone(baked)
	late["disk/reveille/node.yaml"] = document("disk")
	pulled := fstest.MapFS{"proc/cmdline": baked["proc/cmdline"]}
	init := keepOperations(map[proc.Slot][]byte{})
	log := &trace{}
	for agent, root := range []fstest.MapFS{baked, late, pulled} {
		ours, its := net.Pipe()
		go func() { _ = proc.Serve(t.Context(), its, init) }() // ends with the test
		n := &Node{init: proc.NewClient(ours), logger: log.logger}
		p, looked, err := n.loadParameters(context.Background(), params.Places{Root: root, Volumes: []params.Volume{{Name: "disk", Dir: "disk"}}})
		if err != nil {
			t.Fatalf("agent %d: %v, looked in %s", agent, err, looked)
		}
		want := "/etc/reveille/node.yaml"
		if agent > 0 {
			want += ", as it was earlier in this boot"
		}
		if p.Name != "baked" || p.Source != want {
			t.Errorf("agent %d: %s from %s", agent, p.Name, p.Source)
		}
		if text := fmt.Sprintf("%v %+v %s", *p, *p, looked); strings.Contains(text, "a-secret") {
			t.Errorf("agent %d shows a secret", agent)
		}
	}
	if text := log.buf.String(); text != "" {
		t.Errorf("said %s", text)
	}
}
