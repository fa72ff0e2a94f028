package pid1

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// apiMount is one kernel file system that everything else takes for granted.
type apiMount struct {
	target, fstype string
	flags          uintptr
	data           string
}

const (
	noExec = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	noDev  = unix.MS_NOSUID | unix.MS_NODEV
)

// apiMounts is in mount order. The kernel mounts devtmpfs by itself only on a
// root block device, never over an initramfs.
var apiMounts = []apiMount{
	{"/proc", "proc", noExec, ""},
	{"/sys", "sysfs", noExec, ""},
	{"/dev", "devtmpfs", unix.MS_NOSUID, "mode=0755"},
	{"/dev/pts", "devpts", unix.MS_NOSUID | unix.MS_NOEXEC, "mode=0620,ptmxmode=0666"},
	{"/dev/shm", "tmpfs", noDev, "mode=1777"},
	{"/run", "tmpfs", noDev, "mode=0755"},
	{"/tmp", "tmpfs", noDev, "mode=1777"},
	{"/sys/fs/cgroup", "cgroup2", noExec, ""},
	{"/sys/fs/pstore", "pstore", noExec, ""},
}

// optional are those that the machine may not have.
var optional = map[string]bool{"pstore": true, "cgroup2": true}

// mountAPI mounts what is missing and returns what could not be mounted; each
// is worth a line and none is a reason to stop.
func mountAPI(mounts []apiMount) (problems []error) {
	for _, m := range mounts {
		if isMountPoint(m.target) {
			continue // a second tmpfs would hide what the first holds
		}
		if optional[m.fstype] {
			if _, err := os.Stat(m.target); err != nil {
				continue
			}
		} else if err := os.MkdirAll(m.target, 0o755); err != nil {
			problems = append(problems, fmt.Errorf("make mount point %s: %w", m.target, err))
			continue
		}
		err := unix.Mount(m.fstype, m.target, m.fstype, m.flags, m.data)
		if err == unix.ENODEV && optional[m.fstype] {
			continue // its driver is a module, and none are loaded yet: nothing here needs it
		}
		if err != nil && err != unix.EBUSY { // EBUSY: the same is mounted there already
			problems = append(problems, fmt.Errorf("mount %s on %s: %w", m.fstype, m.target, err))
		}
	}
	return problems
}

// isMountPoint tells whether a folder is another file system than the one
// above it.
func isMountPoint(dir string) bool {
	var at, above unix.Stat_t
	return unix.Stat(dir, &at) == nil && unix.Stat(filepath.Dir(dir), &above) == nil && at.Dev != above.Dev
}
