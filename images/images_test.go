package images

import (
	"bytes"
	"debug/elf"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/u-root/u-root/pkg/cpio"

	"reveille/boot/modules"
)

func kernel(t testing.TB) Kernel {
	t.Helper()
	k, err := FindKernel("../build/deb")
	if err != nil {
		t.Fatalf("%v (make deps unpacks one)", err)
	}
	return k
}

func build(t testing.TB, s Initramfs) ([]byte, Report) {
	t.Helper()
	var b bytes.Buffer
	report, err := s.Write(&b)
	if err != nil {
		t.Fatal(err)
	}
	return b.Bytes(), report
}

// unpack returns the records by name.
func unpack(t testing.TB, archive []byte) map[string]cpio.Record {
	t.Helper()
	if bytes.HasPrefix(archive, []byte{0x28, 0xb5, 0x2f, 0xfd}) {
		dec, err := zstd.NewReader(nil)
		if err != nil {
			t.Fatal(err)
		}
		defer dec.Close()
		if archive, err = dec.DecodeAll(archive, nil); err != nil {
			t.Fatal(err)
		}
	}
	records, err := cpio.ReadAllRecords(cpio.Newc.Reader(bytes.NewReader(archive)))
	if err != nil {
		t.Fatal(err)
	}
	tree := map[string]cpio.Record{}
	for _, r := range records {
		tree[r.Name] = r
	}
	return tree
}

func content(t testing.TB, r cpio.Record) string {
	t.Helper()
	b := make([]byte, r.FileSize)
	if _, err := r.ReadAt(b, 0); err != nil {
		t.Fatalf("%s: %v", r.Name, err)
	}
	return string(b)
}

func write(t testing.TB, name, text string, mode os.FileMode) string {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return name
}

func TestInitramfs(t *testing.T) {
	dir := t.TempDir()
	set, err := ParseSet("qemu")
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "fw/bnx2/a.fw"), "firmware", 0o600)
	if err := os.Symlink("a.fw", filepath.Join(dir, "fw/bnx2/link")); err != nil {
		t.Fatal(err)
	}
	s := Initramfs{
		Init: write(t, filepath.Join(dir, "init"), "the init", 0o700), Kernel: kernel(t), Modules: set,
		Files: []File{
			{write(t, filepath.Join(dir, "node.yaml"), "version: 1", 0o644), "/etc/reveille/node.yaml"},
			{filepath.Join(dir, "fw"), "lib/firmware"},
		},
	}
	archive, report := build(t, s)
	tree := unpack(t, archive)
	for name, want := range map[string]uint64{
		"init": 0o100755, "dev/console": 0o020600, "dev/null": 0o020666, "etc/reveille": 0o040755,
		"etc/reveille/node.yaml": 0o100644, "lib/firmware/bnx2/a.fw": 0o100644, "lib/firmware/bnx2/link": 0o120777,
		"proc": 0o040755, "tmp": 0o040755,
	} {
		if r, ok := tree[name]; !ok || r.Mode != want {
			t.Errorf("%s: mode %o, want %o", name, r.Mode, want)
		}
	}
	if r := tree["dev/console"]; r.Rmajor != 5 || r.Rminor != 1 {
		t.Errorf("dev/console is %d, %d", r.Rmajor, r.Rminor)
	}
	index := content(t, tree["lib/modules/"+s.Kernel.Release+"/"+modules.IndexFile])
	checkIndex(t, index, s.Kernel.Release, tree)
	if report.Files != len(tree) || report.Bytes != int64(len(archive)) {
		t.Errorf("report %+v, but %d files, %d bytes", report, len(tree), len(archive))
	}
}

// checkIndex: every module is in the archive, complete with what it needs.
func checkIndex(t *testing.T, text, release string, tree map[string]cpio.Record) {
	t.Helper()
	ix, err := modules.ParseIndex(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range ix.Names() {
		order, err := ix.Order(name)
		if err != nil {
			t.Error(err)
		}
		for _, m := range order {
			if _, ok := tree["lib/modules/"+release+"/"+m.Path]; !ok {
				t.Errorf("%s is not in the archive", m.Path)
			}
		}
	}
	for alias, want := range map[string]string{
		"virtio:d00000001v00001AF4":                             "virtio_net",
		"pci:v00001AF4d00001041sv00001AF4sd00001100bc02sc00i00": "virtio_pci",
		"acpi:QEMU0002:":                                        "qemu_fw_cfg",
		"fs-vfat":                                               "vfat",
	} {
		if got := ix.Match(alias); len(got) == 0 || got[0] != want {
			t.Errorf("%s matches %v, want %s", alias, got, want)
		}
	}
}

func TestReproducible(t *testing.T) {
	var archives [2][]byte
	for i := range archives {
		// Another place, time, owner's mask: the content is the same.
		dir := t.TempDir()
		archives[i], _ = build(t, Initramfs{
			Init:   write(t, filepath.Join(dir, "init"), "x", 0o700|os.FileMode(i)),
			Kernel: kernel(t), Modules: common(),
			Files: []File{{write(t, filepath.Join(dir, "b"), "b", 0o600|os.FileMode(i)<<5), "b"}},
		})
	}
	if !bytes.Equal(archives[0], archives[1]) {
		t.Error("the same input gave other bytes")
	}
}

func TestSets(t *testing.T) {
	k := kernel(t)
	if _, err := ParseSet("nonsense"); err == nil {
		t.Error("a set of that name?")
	}
	metal, missing, err := k.choose(metal())
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, m := range metal {
		found[m.Name] = true
	}
	for _, m := range []string{"mlx5_core", "virtio_net", "ixgbevf", "ena"} {
		if !found[m] {
			t.Errorf("metal has no %s", m)
		}
	}
	t.Logf("metal on the cloud kernel: %d modules, not there: %s", len(metal), missing)
	_, _, err = k.choose(Set{Must: []string{"nonsense"}})
	if err == nil || !strings.Contains(err.Error(), "has no nonsense") {
		t.Errorf("a module that must be there and is not: %v", err)
	}
}

// TestCompressedModules: distributions compress modules in three ways; the image
// has them plain, under their plain names.
func TestCompressedModules(t *testing.T) {
	object := module(t, kernel(t), "dummy")
	root := t.TempDir()
	write(t, filepath.Join(root, "boot/vmlinuz-1"), "", 0o644)
	file := write(t, filepath.Join(root, "lib/modules/1/kernel/dummy.ko.gz"), "", 0o644)
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write(object); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	write(t, file, b.String(), 0o644)
	k, err := FindKernel(root)
	if err != nil {
		t.Fatal(err)
	}
	got, _, err := k.choose(Set{Must: []string{"dummy"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 || got[0].Path != "kernel/dummy.ko" || !bytes.Equal(got[0].content, object) {
		t.Errorf("%d modules, %q", len(got), got[0].Path)
	}
}

func module(t testing.TB, k Kernel, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(k.dir, k.files[name]))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestModinfo(t *testing.T) {
	m, err := ParseModinfo(module(t, kernel(t), "virtio_net"))
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "virtio_net" || len(m.Depends) != 3 || len(m.Aliases) != 1 {
		t.Errorf("%+v", m)
	}
	if got := softBefore("pre: a b post: c pre: d"); strings.Join(got, " ") != "a b d" {
		t.Errorf("softdep: %q", got)
	}
	if _, err := ParseModinfo([]byte(elf.ELFMAG)); err == nil {
		t.Error("half a header was understood")
	}
}

// FuzzModinfo: a damaged module is an error or gives an index that can be read.
func FuzzModinfo(f *testing.F) {
	f.Add(module(f, kernel(f), "nls_ascii"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := ParseModinfo(b)
		if err != nil {
			return
		}
		for _, word := range append(append([]string{m.Name}, m.Depends...), m.Aliases...) {
			if strings.ContainsAny(word, " \n") {
				t.Errorf("a blank in %q", word)
			}
		}
	})
}
