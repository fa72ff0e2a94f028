package proc

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

// shellRoot is a folder in which /bin/sh runs: the shell, what it is linked
// with, and what the launcher mounts on.
func shellRoot(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	needs, err := exec.CommandContext(t.Context(), "ldd", "/bin/sh").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(regexp.MustCompile(`/\S+`).FindAllString(string(needs), -1), "/bin/sh") {
		content, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.MkdirAll(filepath.Join(root, filepath.Dir(file)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, file), content, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for _, dir := range []string{"proc", "sys", "dev", "run", "tmp"} {
		if err := os.Mkdir(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	return root
}

// TestRoot: a service sees its root, the kernel's file systems, and the folders
// of the machine that it was given, one in /run, which is fresh, and one in
// another; a link in the root leads nowhere outside.
func TestRoot(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Fatal("wants root: namespaces and mounts")
	}
	root, folder, inner := shellRoot(t), t.TempDir(), t.TempDir()
	const linked = "reveille-test-root" // in the root's /tmp, not in the machine's
	if err := os.Symlink("/tmp", filepath.Join(root, "link")); err != nil {
		t.Fatal(err)
	}
	table := launching(t)
	var out buffer
	spec := shell("svc", `cd /; echo /run/*; echo one > /run/a/x; echo two > /run/a/in/y; echo three > /link/`+linked+`/z; test -e /proc/self/status && test -e /dev/null && echo kernel`)
	spec.Setup = &Setup{Root: root, Folders: []Folder{{folder, "/run/a"}, {inner, "/run/a/in"}, {inner, "/link/" + linked}}}
	if _, err := table.Start(t.Context(), spec, Output{Stdout: out.read, Stderr: out.read}); err != nil {
		t.Fatal(err)
	}
	if err := table.Drained(t.Context(), "svc", 1); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "/run/a\nkernel\n" {
		t.Errorf("said %q", got)
	}
	for file, want := range map[string]string{filepath.Join(folder, "x"): "one\n", filepath.Join(inner, "y"): "two\n", filepath.Join(inner, "z"): "three\n"} {
		if got, err := os.ReadFile(file); string(got) != want {
			t.Errorf("%s is %q, %v", file, got, err)
		}
	}
	if _, err := os.Lstat(filepath.Join("/tmp", linked)); err == nil {
		t.Error("the link led out of the root")
	}
}
