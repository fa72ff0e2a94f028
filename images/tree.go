package images

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/u-root/u-root/pkg/cpio"

	"reveille/boot/modules"
)

// tree is an archive's content by path, without a leading slash.
type tree map[string]cpio.Record

// add puts a record and the directories above it; a later record of the same
// path replaces an earlier one.
func (t tree) add(r cpio.Record) {
	t[r.Name] = r
	for d := path.Dir(r.Name); d != "."; d = path.Dir(d) {
		if _, ok := t[d]; !ok {
			t[d] = cpio.Directory(d, 0o755)
		}
	}
}

func (t tree) addModules(dir string, chosen []loadedModule, builtin []string) {
	var mods []modules.Module
	for _, m := range chosen {
		t.add(static(path.Join(dir, m.Path), m.content, 0o644))
		mods = append(mods, m.Module)
	}
	index := modules.NewIndex(mods, builtin).Format()
	t.add(static(path.Join(dir, modules.IndexFile), index, 0o644))
}

func (t tree) addFile(f File) error {
	return filepath.WalkDir(f.Source, func(source string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		below, err := filepath.Rel(f.Source, source)
		if err != nil {
			return err
		}
		// Followed, not copied, where it is the operator's own argument.
		info, err := os.Stat(source)
		if below != "." {
			info, err = d.Info()
		}
		if err != nil {
			return err
		}
		return t.addEntry(source, path.Join("/", f.Target, below)[1:], info)
	})
}

func (t tree) addEntry(source, target string, info fs.FileInfo) error {
	switch {
	case target == "":
		return nil // the root itself
	case info.IsDir():
		t.add(cpio.Directory(target, 0o755))
		return nil
	case info.Mode()&fs.ModeSymlink != 0:
		to, err := os.Readlink(source)
		t.add(cpio.Symlink(target, to))
		return err
	case !info.Mode().IsRegular():
		return fmt.Errorf("%s is a %s", source, info.Mode().Type())
	}
	content, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	mode := uint64(0o644)
	if info.Mode()&0o111 != 0 {
		mode = 0o755
	}
	t.add(static(target, content, mode))
	return nil
}

func static(name string, content []byte, perm uint64) cpio.Record {
	r := cpio.StaticFile(name, "", perm)
	r.ReaderAt, r.FileSize = bytes.NewReader(content), uint64(len(content))
	return r
}

// write writes the records sorted by path, with times, owners and inode numbers
// that say nothing of the machine that built them.
func (t tree) write(w io.Writer) error {
	out := cpio.Newc.Writer(w)
	for i, name := range slices.Sorted(maps.Keys(t)) {
		r := t[name]
		r.Ino, r.MTime, r.UID, r.GID, r.NLink = uint64(i+1), 0, 0, 0, 1
		r.Dev, r.Major, r.Minor = 0, 0, 0
		if err := out.WriteRecord(r); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return cpio.WriteTrailer(out)
}
