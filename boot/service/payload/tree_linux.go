package payload

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// tree is a folder that is to be a service's root. Every path is resolved by
// the kernel as a process in that root would see it (openat2(2),
// RESOLVE_IN_ROOT): a link to /etc leads to the root's own /etc, and none leads
// out. os.Root refuses such links, which distributions have (/var/run).
type tree struct{ fd int }

func openTree(dir string) (*tree, error) {
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open root %s: %w", dir, err)
	}
	return &tree{fd}, nil
}

func (t *tree) close() { _ = unix.Close(t.fd) }

// open is openat2 in the root; the path may begin with a slash.
func (t *tree) open(name string, flags uint64, mode uint64) (int, error) {
	how := unix.OpenHow{Flags: flags | unix.O_CLOEXEC, Mode: mode, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	for {
		fd, err := unix.Openat2(t.fd, name, &how)
		if err != unix.EAGAIN && err != unix.EINTR { // EAGAIN: something was renamed meanwhile
			return fd, err
		}
	}
}

// parent opens the folder that a path lies in, and makes it where it is not
// there. The caller closes it.
func (t *tree) parent(name string) (dir int, base string, err error) {
	above, base := path.Split(path.Clean("/" + name))
	if base == "" {
		return -1, "", errors.New("it is the root itself")
	}
	dir, err = t.folder(above)
	return dir, base, err
}

// folder opens a folder, and makes it where it is not there.
func (t *tree) folder(name string) (int, error) {
	fd, err := t.open(name, unix.O_PATH|unix.O_DIRECTORY, 0)
	if err == nil || !errors.Is(err, unix.ENOENT) {
		return fd, err
	}
	at := "/"
	for _, part := range strings.Split(strings.Trim(name, "/"), "/") {
		dir, err := t.open(at, unix.O_PATH|unix.O_DIRECTORY, 0)
		if err != nil {
			return -1, err
		}
		err = unix.Mkdirat(dir, part, 0o755)
		_ = unix.Close(dir)
		if err != nil && !errors.Is(err, unix.EEXIST) {
			return -1, err
		}
		at = path.Join(at, part)
	}
	return t.open(name, unix.O_PATH|unix.O_DIRECTORY, 0)
}

// removeAt takes away an entry and all below it; a link itself, not what it
// leads to.
func removeAt(dir int, base string) error {
	root, err := os.OpenRoot(fdPath(dir))
	if err != nil {
		return err
	}
	defer root.Close()
	return root.RemoveAll(base)
}

// fdPath names an O_PATH descriptor for calls that want a name.
func fdPath(fd int) string { return fmt.Sprintf("/proc/self/fd/%d", fd) }
