package payload

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// maxEntries is several times what a full distribution has (Debian with a
	// desktop: some 250,000 files).
	maxEntries = 1 << 20
	// maxBytes bounds a layer that unpacks to more than anybody keeps in memory,
	// where payloads lie; what there really is, the file system says first.
	maxBytes = 64 << 30
)

// The names by which a layer takes away what layers below it have (OCI image
// specification, layer.md, "Whiteouts").
const (
	whiteout = ".wh."
	opaque   = ".wh..wh..opq"
)

// Skipped counts what is in a payload and not taken over: device nodes and
// FIFOs, for a service's /dev is the machine's.
type skipped int

// layer unpacks one tar into a tree.
type layer struct {
	tree  *tree
	made  map[string]bool // by this layer, and what that lies in: its own whiteouts spare it
	bytes int64
	skips skipped
}

// apply reads r to the end of the archive, which may not be r's.
func (t *tree) apply(r io.Reader) (skipped, error) {
	l := &layer{tree: t, made: map[string]bool{}}
	archive := tar.NewReader(r)
	for entries := 0; ; entries++ {
		h, err := archive.Next()
		if err == io.EOF {
			return l.skips, nil
		}
		if err != nil {
			return l.skips, fmt.Errorf("read archive: %w", err)
		}
		if entries == maxEntries {
			return l.skips, fmt.Errorf("read archive: more than %d entries", maxEntries)
		}
		if err := l.entry(h, archive); err != nil {
			return l.skips, fmt.Errorf("unpack %q: %w", h.Name, err)
		}
	}
}

func (l *layer) entry(h *tar.Header, r io.Reader) error {
	if strings.ContainsRune(h.Name, 0) || strings.ContainsRune(h.Linkname, 0) {
		return errors.New("its name has a byte 0")
	}
	name := path.Clean("/" + h.Name)
	switch h.Typeflag {
	case tar.TypeXGlobalHeader:
		return nil
	case tar.TypeChar, tar.TypeBlock, tar.TypeFifo:
		l.skips++
		return nil
	}
	if name == "/" {
		return nil // its mode is ours: 0755
	}
	dir, base, err := l.tree.parent(name)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if strings.HasPrefix(base, whiteout) {
		return l.whiteout(dir, path.Dir(name), base)
	}
	for at := name; at != "/"; at = path.Dir(at) {
		l.made[at] = true
	}
	if err := makeWay(dir, base, h.Typeflag == tar.TypeDir); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		return l.file(dir, base, h, r)
	case tar.TypeDir:
		if err := unix.Mkdirat(dir, base, 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
			return err
		}
		return own(dir, base, h)
	case tar.TypeSymlink:
		if err := unix.Symlinkat(h.Linkname, dir, base); err != nil {
			return err
		}
		return unix.Fchownat(dir, base, h.Uid, h.Gid, unix.AT_SYMLINK_NOFOLLOW)
	case tar.TypeLink:
		return l.link(dir, base, h.Linkname)
	}
	return fmt.Errorf("it is of a kind %q that is not supported", h.Typeflag)
}

// makeWay removes what a new entry replaces: all but a folder for a folder.
func makeWay(dir int, base string, folder bool) error {
	var st unix.Stat_t
	err := unix.Fstatat(dir, base, &st, unix.AT_SYMLINK_NOFOLLOW)
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	if err != nil {
		return err
	}
	if folder && st.Mode&unix.S_IFMT == unix.S_IFDIR {
		return nil
	}
	return removeAt(dir, base)
}

func (l *layer) file(dir int, base string, h *tar.Header, r io.Reader) error {
	if l.bytes += h.Size; l.bytes > maxBytes {
		return fmt.Errorf("the layer unpacks to more than %d bytes", int64(maxBytes))
	}
	fd, err := unix.Openat(dir, base, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	f := os.NewFile(uintptr(fd), base)
	_, err = io.Copy(f, r)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	return own(dir, base, h)
}

// own gives a file or folder its owner, and then its mode: a change of owner
// takes set-user-ID bits away.
func own(dir int, base string, h *tar.Header) error {
	if err := unix.Fchownat(dir, base, h.Uid, h.Gid, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return err
	}
	if err := unix.Fchmodat(dir, base, uint32(h.Mode)&0o7777, 0); err != nil {
		return err
	}
	at := unix.NsecToTimespec(h.ModTime.UnixNano())
	return unix.UtimesNanoAt(dir, base, []unix.Timespec{at, at}, unix.AT_SYMLINK_NOFOLLOW)
}

// link makes a hard link to a file of the tree; to a symbolic link itself, not
// through it.
func (l *layer) link(dir int, base, target string) error {
	from, name, err := l.tree.parent(target)
	if err != nil {
		return fmt.Errorf("link to %q: %w", target, err)
	}
	defer unix.Close(from)
	if err := unix.Linkat(from, name, dir, base, 0); err != nil {
		return fmt.Errorf("link to %q: %w", target, err)
	}
	return nil
}

func (l *layer) whiteout(dir int, parent, base string) error {
	if base != opaque {
		name := strings.TrimPrefix(base, whiteout)
		if name == "" || name == "." || name == ".." {
			return errors.New("a whiteout of nothing")
		}
		if l.made[path.Join(parent, name)] {
			return nil
		}
		return removeAt(dir, name)
	}
	root, err := os.OpenRoot(fdPath(dir))
	if err != nil {
		return err
	}
	defer root.Close()
	return l.hide(root, parent, ".")
}

// hide removes what layers below have in a folder.
func (l *layer) hide(root *os.Root, parent, name string) error {
	f, err := root.Open(name)
	if err != nil {
		return err
	}
	below, err := f.ReadDir(-1)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	for _, e := range below {
		at := path.Join(parent, e.Name())
		switch {
		case !l.made[at]:
			err = root.RemoveAll(path.Join(name, e.Name()))
		case e.IsDir():
			err = l.hide(root, at, path.Join(name, e.Name()))
		}
		if err != nil {
			return err
		}
	}
	return nil
}
