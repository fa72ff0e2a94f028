package main

import (
	"go/build/constraint"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// testRun is a `go test` of the Makefile: build tags, and which tests it takes.
type testRun struct {
	tags   []string
	only   *regexp.Regexp // nil: all
	behind string         // or those whose file's tags name this one
}

var (
	testCommand = regexp.MustCompile(`(?m)^\t.*\bgo ?test .*$`)
	tagsFlag    = regexp.MustCompile(` -tags (?:'([^']+)'|(\w+))`)
	runFlag     = regexp.MustCompile(` -run '(?:\$\(call names,(\w+)\)|([^']*))'`)
	buildLine   = regexp.MustCompile(`(?m)^//go:build .*$`)
	testName    = regexp.MustCompile(`(?m)^func (Test\w*)\(\w+ \*testing\.T\)`)
)

// TestEveryTestRuns: a test that a wrong build tag keeps from every run is worse
// than none.
func TestEveryTestRuns(t *testing.T) {
	makefile, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	runs := runsOf(string(makefile))
	if len(runs) < 5 {
		t.Fatalf("the Makefile has only %d runs of tests", len(runs))
	}
	files, err := exec.Command("git", "ls-files", "-co", "--exclude-standard", "*_test.go").Output()
	if err != nil {
		t.Fatalf("list files: %v", err)
	}
	for file := range strings.FieldsSeq(string(files)) {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // deleted, and not committed yet
		}
		for _, m := range testName.FindAllSubmatch(text, -1) {
			name, line := string(m[1]), string(buildLine.Find(text))
			if name != "TestMain" && !slices.ContainsFunc(runs, func(r testRun) bool { return r.takes(t, name, line) }) {
				t.Errorf("%s: no run of the Makefile takes %s", file, name)
			}
		}
	}
}

// TestTakes holds the check itself.
func TestTakes(t *testing.T) {
	runs := runsOf("test:\n\t.ci/gotest -race ./...\n\t.ci/gotest -tags 'e2e soak' -run '$(call names,soak)' ./x\n\tgo test -tags bench -run '^TestPeers$$' ./y\n")
	for _, c := range []struct {
		name, line string
		want       int
	}{
		{"TestA", "", 0},
		{"TestA", "//go:build soak", 1},
		{"TestA", "//go:build e2e && soak", 1},
		{"TestA", "//go:build e2e", -1},
		{"TestA", "//go:build soka", -1},
		{"TestA", "//go:build bench", -1},
		{"TestPeers", "//go:build bench", 2},
	} {
		if got := slices.IndexFunc(runs, func(r testRun) bool { return r.takes(t, c.name, c.line) }); got != c.want {
			t.Errorf("%s behind %q is taken by run %d, want %d", c.name, c.line, got, c.want)
		}
	}
}

func runsOf(makefile string) (runs []testRun) {
	for _, command := range testCommand.FindAllString(makefile, -1) {
		r := testRun{tags: []string{"linux", "unix", "amd64"}}
		if m := tagsFlag.FindStringSubmatch(command); m != nil {
			r.tags = append(r.tags, strings.Fields(m[1]+" "+m[2])...)
		}
		if m := runFlag.FindStringSubmatch(command); m != nil {
			r.behind = m[1]
			r.only = regexp.MustCompile(strings.ReplaceAll(m[2], "$$", "$"))
		}
		runs = append(runs, r)
	}
	return runs
}

// takes tells whether the run has a test of a file that begins with this build
// line, empty for none.
func (r testRun) takes(t *testing.T, test, line string) bool {
	t.Helper()
	if line != "" {
		expr, err := constraint.Parse(line)
		if err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		if !expr.Eval(func(tag string) bool { return slices.Contains(r.tags, tag) }) {
			return false
		}
	}
	if r.behind != "" {
		return regexp.MustCompile(`\b` + r.behind + `\b`).MatchString(line)
	}
	return r.only == nil || r.only.MatchString(test)
}
