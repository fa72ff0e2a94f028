package main

import (
	"encoding/json"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// arrows is ARCHITECTURE.md's table: what a package of ours may import of us.
// A name ending in "/..." stands for a folder and all below it; the longest
// that fits counts. A package that is not
// listed may import nothing of ours, so a new room begins with its arrow here.
var arrows = map[string][]string{
	"reveille/console":                    {},
	"reveille/netcfg":                     {"reveille/netcfg/dhcp", "reveille/netcfg/dhcp4", "reveille/netcfg/dhcp6"},
	"reveille/netcfg/dhcp":                {},
	"reveille/netcfg/dhcp4":               {"reveille/netcfg/dhcp"},
	"reveille/netcfg/dhcp6":               {"reveille/netcfg/dhcp"},
	"reveille/tpm":                        {},
	"reveille/tpm/tpmtest":                {"reveille/tpm"},
	"reveille/boot/proc":                  {},
	"reveille/boot/modules":               {},
	"reveille/boot/crash":                 {},
	"reveille/boot/pid1":                  {"reveille/console", "reveille/boot/crash", "reveille/boot/proc"},
	"reveille/boot/cluster/clusterv1/...": {"reveille/boot/cluster/clusterv1"},
	"reveille/boot/identity":              {"reveille/boot/cluster/clusterv1/..."},
	"reveille/boot/service":               {"reveille/netcfg"},
	"reveille/boot/service/payload":       {"reveille/boot/proc", "reveille/boot/service"},
	"reveille/boot/supervise":             {"reveille/boot/service", "reveille/boot/proc"},
	"reveille/boot/monitor":               {"reveille/boot/service"},
	"reveille/boot/params":                {"reveille/boot/identity", "reveille/boot/service", "reveille/netcfg"},
	"reveille/boot/state":                 {"reveille/tpm"},
	"reveille/boot/join":                  {"reveille/boot/identity", "reveille/boot/params", "reveille/boot/cluster/clusterv1/..."},
	"reveille/boot/nodeapi":               {"reveille/boot/identity", "reveille/boot/cluster/clusterv1/..."},
	"reveille/boot/cluster/...":           {"reveille/netcfg", "reveille/boot/crash", "reveille/boot/identity", "reveille/boot/service", "reveille/boot/cluster/..."},
	"reveille/boot":                       {"reveille/console", "reveille/netcfg", "reveille/tpm", "reveille/boot/..."},
	"reveille/init":                       {"reveille/console", "reveille/boot", "reveille/boot/pid1", "reveille/boot/proc"},
	"reveille/init/launch":                {"reveille/boot/proc"},
	"reveille/internal/synctest":          {},
	"reveille/images/...":                 {"reveille/..."},
	"reveille":                            {"reveille/..."},
}

type listed struct {
	ImportPath  string
	Imports     []string
	TestImports []string
	Deps        []string
}

// TestArrows fails when an import runs against ARCHITECTURE.md.
func TestArrows(t *testing.T) {
	for _, p := range packages(t) {
		allowed := allowedFor(p.ImportPath)
		for _, imp := range p.Imports {
			if isOurs(imp) && !slices.ContainsFunc(allowed, func(a string) bool { return covers(a, imp) }) {
				t.Errorf("%s imports %s: against the arrows of ARCHITECTURE.md", p.ImportPath, imp)
			}
		}
	}
}

// TestNodeBinaryHasNoStore keeps the cluster's side, and etcd with it, out of
// what a node boots.
func TestNodeBinaryHasNoStore(t *testing.T) {
	for _, p := range packages(t) {
		if p.ImportPath != "reveille/init" {
			continue
		}
		for _, dep := range p.Deps {
			if dep == "reveille/boot/cluster" || strings.HasPrefix(dep, "go.etcd.io/") {
				t.Errorf("the node's binary reaches %s", dep)
			}
		}
		return
	}
	t.Error("package reveille/init not found")
}

// TestBubblesSurviveTheRaceDetector keeps tests off testing/synctest itself.
func TestBubblesSurviveTheRaceDetector(t *testing.T) {
	for _, p := range packages(t) {
		if slices.Contains(p.TestImports, "testing/synctest") {
			t.Errorf("a test of %s imports testing/synctest: import reveille/internal/synctest", p.ImportPath)
		}
	}
}

func allowedFor(pkg string) []string {
	best := ""
	for pattern := range arrows {
		if covers(pattern, pkg) && len(pattern) > len(best) {
			best = pattern
		}
	}
	return arrows[best]
}

func covers(pattern, pkg string) bool {
	prefix, all := strings.CutSuffix(pattern, "/...")
	return pkg == prefix || all && strings.HasPrefix(pkg, prefix+"/")
}

func isOurs(pkg string) bool { return covers("reveille/...", pkg) }

func packages(t *testing.T) (all []listed) {
	t.Helper()
	out, err := exec.Command("go", "list", "-json=ImportPath,Imports,TestImports,Deps", "./...").Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p listed
		if err := dec.Decode(&p); err == io.EOF {
			return all
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
}
