package payload

import (
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"reveille/boot/proc"
	"reveille/boot/service"
)

// Root makes dir/root a writable view of a payload for one incarnation: what it
// writes lies in dir/upper, and goes with Remove. The kernel needs overlayfs.
func Root(payload, dir string) (string, error) {
	root := filepath.Join(dir, "root")
	for _, name := range []string{"upper", "work", "root"} {
		if err := os.MkdirAll(filepath.Join(dir, name), 0o755); err != nil {
			return "", fmt.Errorf("make root: %w", err)
		}
	}
	data := fmt.Sprintf("lowerdir=%s,upperdir=%s,workdir=%s", payload, filepath.Join(dir, "upper"), filepath.Join(dir, "work"))
	if err := unix.Mount("overlay", root, "overlay", 0, data); err != nil {
		return "", fmt.Errorf("make root: mount overlay of %s: %w", payload, err)
	}
	t, err := openTree(root)
	if err != nil {
		return "", err
	}
	defer t.close()
	for _, name := range mountPoints {
		fd, err := t.folder(name)
		if err != nil {
			return "", fmt.Errorf("make root: make /%s: %w", name, err)
		}
		_ = unix.Close(fd)
	}
	return root, nil
}

// mountPoints are what a root needs for what the launcher mounts there; an image
// of a single program has none of them.
var mountPoints = []string{"proc", "sys", "dev", "run", "tmp"}

// Remove undoes Root, also what is left of one that was cut off; what was never
// made is removed already.
func Remove(dir string) error {
	root := filepath.Join(dir, "root")
	err := unix.Unmount(root, unix.UMOUNT_NOFOLLOW)
	if errors.Is(err, unix.EBUSY) { // somebody looks into it
		err = unix.Unmount(root, unix.UMOUNT_NOFOLLOW|unix.MNT_DETACH)
	}
	if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) { // no mount, no folder
		return fmt.Errorf("remove root: unmount %s: %w", root, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove root: %w", err)
	}
	return nil
}

// WriteFile puts a rendered file into a root ("/" is one too), whole or not at
// all, under the mode and owner of its definition.
func WriteFile(root string, f service.File, text []byte) error {
	if err := writeFile(root, f, text); err != nil {
		return fmt.Errorf("write %s: %w", f.Path, err)
	}
	return nil
}

func writeFile(root string, f service.File, text []byte) error {
	t, err := openTree(root)
	if err != nil {
		return err
	}
	defer t.close()
	uid, gid, err := t.owner(f.User)
	if err != nil {
		return err
	}
	dir, base, err := t.parent(f.Path)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	next := "." + base + ".new"
	if err := unix.Unlinkat(dir, next, 0); err != nil && !errors.Is(err, unix.ENOENT) { // of an agent that was killed
		return err
	}
	fd, err := unix.Openat(dir, next, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return err
	}
	file := os.NewFile(uintptr(fd), next)
	_, err = file.Write(text)
	err = errors.Join(err, file.Chown(uid, gid), file.Chmod(os.FileMode(f.Mode)), file.Close())
	if err == nil {
		err = unix.Renameat(dir, next, dir, base)
	}
	if err != nil {
		return errors.Join(err, unix.Unlinkat(dir, next, 0))
	}
	return nil
}

// maxPasswd is far above any passwd(5) that is read line by line at each start.
const maxPasswd = 1 << 20

// owner is the number of a user and of its group by the root's own passwd(5),
// the same as the launcher finds for a service.
func (t *tree) owner(user string) (uid, gid int, err error) {
	var passwd []byte
	if fd, err := t.open("/etc/passwd", unix.O_RDONLY, 0); err == nil {
		f := os.NewFile(uintptr(fd), "passwd")
		defer f.Close()
		if passwd, err = io.ReadAll(io.LimitReader(f, maxPasswd)); err != nil {
			return 0, 0, err
		}
	}
	if uid, gid, err = proc.FindUser(user, passwd); err != nil {
		return 0, 0, fmt.Errorf("its owner %s: no such user", user)
	}
	return uid, gid, nil
}

// Owner is the number of a user and of its group as a root knows them.
func Owner(root, user string) (uid, gid int, err error) {
	t, err := openTree(root)
	if err != nil {
		return 0, 0, err
	}
	defer t.close()
	return t.owner(user)
}

// Folder makes the folder of that path that services share, below dir, for the
// owner who comes first, and returns where it is. What one of the services
// mounts in it, the others see.
func Folder(dir, path string, uid, gid int) (string, error) {
	at := filepath.Join(dir, url.PathEscape(strings.TrimPrefix(path, "/")))
	err := os.MkdirAll(dir, 0o755)
	if err == nil {
		err = os.Mkdir(at, 0o755)
	}
	if err == nil {
		err = os.Chown(at, uid, gid)
	}
	if err != nil && !errors.Is(err, os.ErrExist) {
		return "", fmt.Errorf("make folder %s: %w", path, err)
	}
	var fs, above unix.Statx_t
	if err := errors.Join(mountID(at, &fs), mountID(dir, &above)); err != nil {
		return "", fmt.Errorf("make folder %s: %w", path, err)
	}
	if fs.Mnt_id != above.Mnt_id {
		return at, nil
	}
	if err := unix.Mount(at, at, "", unix.MS_BIND, ""); err != nil {
		return "", fmt.Errorf("make folder %s: bind: %w", path, err)
	}
	if err := unix.Mount("", at, "", unix.MS_SHARED, ""); err != nil {
		return "", fmt.Errorf("make folder %s: share: %w", path, err)
	}
	return at, nil
}

// STATX_MNT_ID tells mounts of one file system apart (statx(2), Linux 5.8).
func mountID(path string, st *unix.Statx_t) error {
	return unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_MNT_ID, st)
}
