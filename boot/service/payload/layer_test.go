package payload

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// entry of a test's archive: "dir/", "file=text", "link->target", "hard=>target",
// "null!c".
func archive(t testing.TB, entries ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	w := tar.NewWriter(&out)
	for _, e := range entries {
		h := &tar.Header{Mode: 0o644, Format: tar.FormatPAX, Typeflag: tar.TypeReg, Name: e}
		text := ""
		if name, target, ok := strings.Cut(e, "->"); ok {
			h.Name, h.Linkname, h.Typeflag = name, target, tar.TypeSymlink
		} else if name, target, ok := strings.Cut(e, "=>"); ok {
			h.Name, h.Linkname, h.Typeflag = name, target, tar.TypeLink
		} else if name, ok := strings.CutSuffix(e, "!c"); ok {
			h.Name, h.Typeflag = name, tar.TypeChar
		} else if name, content, ok := strings.Cut(e, "="); ok {
			h.Name, text = name, content
			h.Size = int64(len(text))
		} else if strings.HasSuffix(e, "/") {
			h.Typeflag, h.Mode = tar.TypeDir, 0o755
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// listing is a tree as archive takes it, sorted.
func listing(t testing.TB, dir string) (all []string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(strings.TrimPrefix(path, dir), "/")
		switch {
		case err != nil:
			return err
		case name == "":
		case d.IsDir():
			all = append(all, name+"/")
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			all = append(all, name+"->"+target)
			return err
		default:
			text, err := os.ReadFile(path)
			all = append(all, name+"="+string(text))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(all)
	return all
}

// Layers as images have them, and as somebody makes them who wants to get out.
func TestLayers(t *testing.T) {
	for name, tc := range map[string]struct {
		layers [][]string
		want   []string
		err    string
	}{
		"plain": {layers: [][]string{{"./", "./etc/", "./etc/x=1", "usr/bin/a=2", "bin->usr/bin", "b=>usr/bin/a"}},
			want: []string{"b=2", "bin->usr/bin", "etc/", "etc/x=1", "usr/", "usr/bin/", "usr/bin/a=2"}},
		"through a link":     {layers: [][]string{{"run/", "var/run->/run"}, {"var/run/x=1"}}, want: []string{"run/", "run/x=1", "var/", "var/run->/run"}},
		"replaced":           {layers: [][]string{{"a=1", "b/", "b/c=1"}, {"a/", "b=2"}}, want: []string{"a/", "b=2"}},
		"a folder twice":     {layers: [][]string{{"a/", "a/b=1"}, {"a/", "a/c=2"}}, want: []string{"a/", "a/b=1", "a/c=2"}},
		"link replaced":      {layers: [][]string{{"d/", "a->d"}, {"a=1"}}, want: []string{"a=1", "d/"}},
		"whiteout":           {layers: [][]string{{"a/b=1", "a/c=1", "d/e=1"}, {"a/.wh.b", ".wh.d"}}, want: []string{"a/", "a/c=1"}},
		"whiteout of own":    {layers: [][]string{{"a=1"}, {"a=2", ".wh.a"}}, want: []string{"a=2"}},
		"opaque":             {layers: [][]string{{"a/b=1", "a/c/d=1"}, {"a/e=2", "a/c/f=2", "a/.wh..wh..opq"}}, want: []string{"a/", "a/c/", "a/c/f=2", "a/e=2"}},
		"devices":            {layers: [][]string{{"dev/null!c", "a=1"}}, want: []string{"a=1"}},
		"up":                 {layers: [][]string{{"../../../../../../tmp/up=1"}}, want: []string{"tmp/", "tmp/up=1"}},
		"absolute":           {layers: [][]string{{"/etc/x=1"}}, want: []string{"etc/", "etc/x=1"}},
		"link out":           {layers: [][]string{{"a->OUT", "a/x=1"}}, err: "no such file"},
		"relative link out":  {layers: [][]string{{"a->../../../../../../..OUT", "a/x=1"}}, err: "no such file"},
		"link over a link":   {layers: [][]string{{"a->OUT/x", "a=1"}}, want: []string{"a=1"}},
		"hard link out":      {layers: [][]string{{"a=>../../../../..OUT/secret"}}, err: "link to"},
		"hard link to link":  {layers: [][]string{{"a->OUT/secret", "b=>a"}}, want: []string{"a->OUT/secret", "b->OUT/secret"}},
		"whiteout out":       {layers: [][]string{{"a->OUT", "a/.wh.secret"}}, err: "no such file"},
		"whiteout of a link": {layers: [][]string{{"a->OUT"}, {".wh.a"}}},
		"whiteout of dots":   {layers: [][]string{{".wh..."}}, err: "whiteout of nothing"},
		"whiteout of all":    {layers: [][]string{{".wh."}}, err: "whiteout of nothing"},
		"file is no folder":  {layers: [][]string{{"a=1", "a/b=1"}}, err: "not a directory"},
		"loop":               {layers: [][]string{{"a->b", "b->a", "a/x=1"}}, err: "too many levels"},
		"magic":              {layers: [][]string{{"a->/proc/self/root", "a/x=1"}}, err: "no such file"},
	} {
		t.Run(name, func(t *testing.T) {
			out, dir := t.TempDir(), t.TempDir()
			if err := os.WriteFile(filepath.Join(out, "secret"), []byte("s"), 0o600); err != nil {
				t.Fatal(err)
			}
			tree, err := openTree(dir)
			if err != nil {
				t.Fatal(err)
			}
			defer tree.close()
			for _, entries := range tc.layers {
				for i := range entries {
					entries[i] = strings.ReplaceAll(entries[i], "OUT", out)
				}
				if _, err = tree.apply(bytes.NewReader(archive(t, entries...))); err != nil {
					break
				}
			}
			if tc.err != "" {
				if err == nil || !strings.Contains(err.Error(), tc.err) {
					t.Errorf("got %v, want %s", err, tc.err)
				}
			} else if err != nil {
				t.Error(err)
			} else {
				var want []string
				for _, e := range tc.want {
					want = append(want, strings.ReplaceAll(e, "OUT", out))
				}
				if got := slices.DeleteFunc(listing(t, dir), func(s string) bool { return s == "dev/" }); !slices.Equal(want, got) {
					t.Error(cmp.Diff(want, got))
				}
			}
			if got := listing(t, out); !slices.Equal(got, []string{"secret=s"}) {
				t.Errorf("outside there is now %v", got)
			}
		})
	}
}

func TestModesAndOwners(t *testing.T) {
	var buf bytes.Buffer
	w := tar.NewWriter(&buf)
	err := errors.Join(w.WriteHeader(&tar.Header{Name: "su", Mode: 0o4755, Uid: 7, Gid: 8, Typeflag: tar.TypeReg}),
		w.WriteHeader(&tar.Header{Name: "d", Mode: 0o1700, Uid: 9, Typeflag: tar.TypeDir}), w.Close())
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	tree, err := openTree(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer tree.close()
	if _, err := tree.apply(&buf); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{"su": "104755 7:8", "d": "41700 9:0"} {
		var st unix.Stat_t
		if err := unix.Lstat(filepath.Join(dir, name), &st); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%o %d:%d", st.Mode, st.Uid, st.Gid); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
}

func FuzzLayer(f *testing.F) {
	f.Add(archive(f, "./etc/", "etc/x=1", "a->../..", "a/b=1", ".wh.etc", "b=>etc/x", "a/.wh..wh..opq"))
	f.Fuzz(func(t *testing.T, b []byte) {
		dir := t.TempDir()
		guard := write(t, filepath.Join(dir, "guard"), []byte("g"))
		root := filepath.Join(dir, "root")
		if err := os.Mkdir(root, 0o755); err != nil {
			t.Fatal(err)
		}
		tree, err := openTree(root)
		if err != nil {
			t.Fatal(err)
		}
		defer tree.close()
		_, _ = tree.apply(bytes.NewReader(b))
		entries, err := os.ReadDir(dir)
		if text, _ := os.ReadFile(guard); err != nil || len(entries) != 2 || string(text) != "g" {
			t.Errorf("outside the root: %v, %q, %v", entries, text, err)
		}
	})
}
