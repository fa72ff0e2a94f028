package pid1

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestServiceOf(t *testing.T) {
	for text, want := range map[string]string{
		"0::/services/etcd-3\n":         "etcd-3",
		"0::/services/etcd-3/pod/abc\n": "etcd-3",
		"0::/\n":                        "",
		"0::/services/\n":               "",
		"0::/other/services/etcd-3\n":   "",
		"":                              "",
	} {
		got, ok := serviceOf(text)
		if ok != (want != "") || ok && got != want {
			t.Errorf("%q is of %q, %t", text, got, ok)
		}
	}
}

// TestCoreIsBounded: by what the service may leave, by what all may take, and
// nothing is kept that nobody wants; the first core stays.
func TestCoreIsBounded(t *testing.T) {
	dir := t.TempDir()
	want := func(name, limit string) {
		if err := os.WriteFile(filepath.Join(dir, name+".limit"), []byte(limit), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	size := func(name string) int64 {
		info, err := os.Stat(filepath.Join(dir, name+".core"))
		if err != nil {
			return -1
		}
		return info.Size()
	}
	dump := func() *strings.Reader { return strings.NewReader(strings.Repeat("core", 1000)) }
	want("small-1", "5000")
	want("large-1", "100")
	want("none-1", "x")
	want("late-1", "4000")
	for _, name := range []string{"small-1", "large-1", "unknown-1", "none-1", "late-1"} {
		_ = keepCore(dir, name, dump(), 4200) // what is kept is what counts
	}
	for name, want := range map[string]int64{"small-1": 4000, "large-1": 100, "unknown-1": -1, "none-1": -1, "late-1": 88} {
		if got := size(name); got != want {
			t.Errorf("%s: %d bytes, want %d", name, got, want)
		}
	}
	if err := keepCore(dir, "small-1", strings.NewReader("again"), 4200); err == nil || size("small-1") != 4000 {
		t.Error("a second core took the place of the first")
	}
}
