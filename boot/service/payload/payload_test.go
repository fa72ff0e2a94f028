package payload

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/klauspost/compress/zstd"
	"golang.org/x/sys/unix"

	"reveille/boot/service"
)

func gz(t testing.TB, b []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, err := w.Write(b)
	if err := errors.Join(err, w.Close()); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func zst(t testing.TB, b []byte) []byte {
	e, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	return e.EncodeAll(b, nil)
}

func digestOf(b []byte) string {
	sum := sha256.Sum256(b)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func write(t testing.TB, file string, b []byte) string {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, b, 0o644)); err != nil {
		t.Fatal(err)
	}
	return file
}

func store(t *testing.T) *Store { return &Store{Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)} }

func unpack(s *Store, ctx context.Context, p service.Payload) (dir string, err error) {
	err = s.Unpack(ctx, p, func(files string) error { dir = files; return nil })
	return dir, err
}

func TestArchives(t *testing.T) {
	plain := archive(t, "a=1")
	for name, b := range map[string][]byte{"tar": plain, "gzip": gz(t, plain), "zstd": zst(t, plain), "trailer": append(slices.Clone(plain), make([]byte, 1<<16)...)} {
		s := store(t)
		file := write(t, filepath.Join(t.TempDir(), "p"), b)
		dir, err := unpack(s, t.Context(), service.Payload{Name: "p", Source: file, Digest: digestOf(b)})
		if err != nil {
			t.Fatal(name, err)
		}
		if got := listing(t, dir); !slices.Equal(got, []string{"a=1"}) {
			t.Errorf("%s: got %v", name, got)
		}
		if err := os.Remove(file); err != nil {
			t.Fatal(err)
		}
		if again, err := unpack(s, t.Context(), service.Payload{Name: "q", Source: file, Digest: digestOf(b)}); err != nil || again != dir {
			t.Errorf("%s: what is unpacked is not used again: %v", name, err)
		}
	}
}

// Whatever is wrong, nothing is left that could be taken for the payload.
func TestWrongArchives(t *testing.T) {
	good := archive(t, "a=1", "b=2")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tc := range map[string]struct {
		text   []byte
		digest string
		ctx    context.Context
		want   string
	}{
		"another digest": {good, digestOf([]byte("x")), t.Context(), "its digest is " + digestOf(good)},
		"torn":           {good[:512], digestOf(good[:512]), t.Context(), "unexpected EOF"},
		"torn, digest":   {good[:512], digestOf(good), t.Context(), "its digest is"},
		"no archive":     {[]byte("hello"), digestOf([]byte("hello")), t.Context(), "unexpected EOF"},
		"torn gzip":      {gz(t, good)[:40], digestOf(gz(t, good)[:40]), t.Context(), "unexpected EOF"},
		"cancelled":      {good, digestOf(good), cancelled, "context canceled"},
	} {
		s := store(t)
		file := write(t, filepath.Join(t.TempDir(), "p"), tc.text)
		_, err := unpack(s, tc.ctx, service.Payload{Name: "p", Source: file, Digest: tc.digest})
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "unpack payload p from "+file) {
			t.Errorf("%s: got %v, want %s", name, err, tc.want)
		}
		if left := listing(t, s.Dir); len(left) > 0 {
			t.Errorf("%s: left %v", name, left)
		}
	}
	if _, err := unpack(store(t), t.Context(), service.Payload{Name: "p", Source: "/nowhere", Digest: digestOf(nil)}); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
}

// layout writes an OCI layout and returns its folder and the manifest's digest.
func layout(t *testing.T, index bool, layers ...[]byte) (dir, digest string) {
	t.Helper()
	dir = t.TempDir()
	blob := func(b []byte) descriptor {
		d := digestOf(b)
		write(t, filepath.Join(dir, "blobs", "sha256", strings.TrimPrefix(d, "sha256:")), b)
		return descriptor{Digest: d, Size: int64(len(b)), MediaType: "application/vnd.oci.image.layer.v1.tar"}
	}
	encode := func(d document) []byte {
		d.SchemaVersion = 2
		b, err := json.Marshal(d)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	var m document
	for _, l := range layers {
		m.Layers = append(m.Layers, blob(l))
	}
	manifest := blob(encode(m))
	if !index {
		return dir, manifest.Digest
	}
	other := manifest
	other.Platform = &platform{"s390x", "linux"}
	manifest.Platform = &platform{runtime.GOARCH, "linux"}
	return dir, blob(encode(document{Manifests: []descriptor{other, manifest}})).Digest
}

func TestLayouts(t *testing.T) {
	first, second := gz(t, archive(t, "a=1", "b=1")), zst(t, archive(t, ".wh.a", "c=2"))
	for _, index := range []bool{false, true} {
		dir, digest := layout(t, index, first, second)
		s := store(t)
		got, err := unpack(s, t.Context(), service.Payload{Name: "p", Source: dir, Digest: digest})
		if err != nil {
			t.Fatal(err)
		}
		if files := listing(t, got); !slices.Equal(files, []string{"b=1", "c=2"}) {
			t.Errorf("index %v: got %v", index, files)
		}
	}
	dir, digest := layout(t, false, first, second)
	write(t, filepath.Join(dir, "blobs", "sha256", strings.TrimPrefix(digestOf(second), "sha256:")), first)
	s := store(t)
	_, err := unpack(s, t.Context(), service.Payload{Name: "p", Source: dir, Digest: digest})
	if err == nil || !strings.Contains(err.Error(), "layer "+digestOf(second)+": its digest is "+digestOf(first)) {
		t.Errorf("another layer: got %v", err)
	}
	if left := listing(t, s.Dir); len(left) > 0 {
		t.Errorf("left %v", left)
	}
}

// Many services start at once and use one payload: it is unpacked once.
func TestUnpackedOnce(t *testing.T) {
	b := archive(t, "a=1")
	var said bytes.Buffer
	s := &Store{Dir: t.TempDir(), Log: slog.New(slog.NewTextHandler(&said, nil))}
	p := service.Payload{Name: "p", Source: write(t, filepath.Join(t.TempDir(), "p"), b), Digest: digestOf(b)}
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := unpack(s, t.Context(), p); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := strings.Count(said.String(), "unpacked"); n != 1 {
		t.Errorf("unpacked %d times", n)
	}
}

func TestWriteFile(t *testing.T) {
	root := t.TempDir()
	write(t, filepath.Join(root, "etc/passwd"), []byte("root:x:0:9::/:\netcd:x:105:106::/:\nshort:x:107:108\n"))
	if err := os.Symlink("/etc", filepath.Join(root, "conf")); err != nil {
		t.Fatal(err)
	}
	for _, f := range []service.File{{Path: "/conf/x", Mode: 0o640, User: "etcd"}, {Path: "/new/deep/y", Mode: 0o600, User: "77"}, {Path: "/r", Mode: 0o600, User: "root"}, {Path: "/s", Mode: 0o600, User: "short"}, {Path: "/n", Mode: 0o600}} {
		for _, text := range []string{"one", "two"} {
			if err := WriteFile(root, f, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, want := range map[string]string{"etc/x": "100640 105:106 two", "new/deep/y": "100600 77:77 two", "r": "100600 0:9 two", "s": "100600 107:108 two", "n": "100600 0:0 two"} {
		var st unix.Stat_t
		text, err := os.ReadFile(filepath.Join(root, name))
		if err := errors.Join(err, unix.Lstat(filepath.Join(root, name), &st)); err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%o %d:%d %s", st.Mode, st.Uid, st.Gid, text); got != want {
			t.Errorf("%s: got %s, want %s", name, got, want)
		}
	}
	err := WriteFile(root, service.File{Path: "/etc/z", User: "nosuch"}, nil)
	if err == nil || err.Error() != "write /etc/z: its owner nosuch: no such user" {
		t.Errorf("got %v", err)
	}
	if _, err := os.Stat(filepath.Join(root, "etc/z")); err == nil {
		t.Error("a file without its owner")
	}
}

func FuzzManifest(f *testing.F) {
	f.Add([]byte(`{"schemaVersion":2,"layers":[{"digest":"sha256:00"}]}`))
	f.Add([]byte(`{"schemaVersion":2,"manifests":[{"digest":"sha256:00","platform":{"os":"linux","architecture":"amd64"}}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		layers, manifest, err := parseDocument(b)
		if err == nil && len(layers) == 0 && manifest == nil {
			t.Error("neither layers nor a manifest, and no error")
		}
		for _, l := range layers {
			if err == nil && len(l.Digest) != 71 {
				t.Errorf("digest %q", l.Digest)
			}
		}
	})
}
