package proc

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/sys/unix"
)

// apply does a Setup to the calling thread, which must be locked and is to
// execute the program next: capabilities and namespaces are a thread's.
func (s *Setup) apply(dir string) error {
	for _, step := range []func() error{s.enterCgroup, s.dumpCores} {
		if err := step(); err != nil {
			return err
		}
	}
	folders, err := s.openFolders()
	if err != nil {
		return err
	}
	for _, step := range []func() error{s.join, s.unshare, s.enterRoot, folders.attach} {
		if err := step(); err != nil {
			return err
		}
	}
	who, err := s.account()
	if err != nil {
		return err
	}
	if err := enterDir(dir); err != nil { // as root: the user's own may not be open to it
		return err
	}
	if err := s.become(who); err != nil {
		return err
	}
	return s.noNewPrivileges()
}

// enterCgroup comes first: from here on nothing of the service is outside.
func (s *Setup) enterCgroup() error {
	if s.Cgroup == "" {
		return nil
	}
	if err := os.WriteFile(filepath.Join(s.Cgroup, "cgroup.procs"), []byte("0"), 0); err != nil {
		return fmt.Errorf("enter cgroup: %w", err)
	}
	return nil
}

// noCore is a limit that keeps a kernel with a pipe in core_pattern from dumping
// at all; 0 does not (do_coredump, fs/coredump.c).
const noCore = 1

func (s *Setup) dumpCores() error {
	limit := unix.Rlimit{Cur: noCore, Max: noCore}
	if s.Core {
		limit = unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY} // init's handler of dumps has the bound
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &limit); err != nil {
		return fmt.Errorf("set core limit: %w", err)
	}
	if s.CoreFilter == 0 {
		return nil
	}
	if err := os.WriteFile("/proc/self/coredump_filter", fmt.Appendf(nil, "%#x", s.CoreFilter), 0); err != nil {
		return fmt.Errorf("set core filter: %w", err)
	}
	return nil
}

// flags by the names that definitions use. A pid namespace is made by the fork:
// unshare(2) would put only its children there.
var namespaceFlags = map[string]int{
	"mount": unix.CLONE_NEWNS, "ipc": unix.CLONE_NEWIPC, "uts": unix.CLONE_NEWUTS, "net": unix.CLONE_NEWNET, "pid": 0,
}

func (s *Setup) unshare() error {
	flags := 0
	for _, n := range s.Namespaces {
		flag, known := namespaceFlags[n]
		if !known {
			return fmt.Errorf("make namespace %q: no such kind", n)
		}
		flags |= flag
	}
	if s.Root != "" || s.has("pid") {
		flags |= unix.CLONE_NEWNS // for their /proc
	}
	if flags == 0 {
		return nil
	}
	if err := unix.Unshare(flags); err != nil {
		return fmt.Errorf("make namespaces: %w", err)
	}
	if s.has("net") {
		if err := RaiseLoopback(); err != nil {
			return err
		}
	}
	if flags&unix.CLONE_NEWNS == 0 {
		return nil
	}
	// What the service mounts is its own. What is mounted later in a folder that
	// services share is seen; nothing else of the machine's is shared.
	if err := unix.Mount("", "/", "", unix.MS_SLAVE|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("separate mounts: %w", err)
	}
	if s.has("pid") && s.Root == "" {
		return mountProc("/proc")
	}
	return nil
}

func mountProc(at string) error {
	if err := unix.Mount("proc", at, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount %s: %w", at, err)
	}
	return nil
}

// rootMounts are what every root gets, where it has the folder. Its /run and
// /tmp are fresh: what an incarnation before it left there is gone.
var rootMounts = []struct {
	target, source, fstype string
	flags                  uintptr
	data                   string
}{
	{"proc", "proc", "proc", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC, ""},
	{"sys", "/sys", "", unix.MS_BIND | unix.MS_REC, ""},
	{"dev", "/dev", "", unix.MS_BIND | unix.MS_REC, ""},
	{"run", "tmpfs", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=0755"},
	{"tmp", "tmpfs", "tmpfs", unix.MS_NOSUID | unix.MS_NODEV, "mode=1777"},
}

// enterRoot makes Root the thread's /. The initial root file system of a kernel
// cannot be pivoted away, so Root is moved over it, as switch_root(8) does.
func (s *Setup) enterRoot() error {
	if s.Root == "" {
		return nil
	}
	if err := unix.Mount(s.Root, s.Root, "", unix.MS_BIND|unix.MS_REC, ""); err != nil {
		return fmt.Errorf("enter root %s: bind: %w", s.Root, err)
	}
	for _, m := range rootMounts {
		target := filepath.Join(s.Root, m.target)
		if info, err := os.Lstat(target); err != nil || !info.IsDir() {
			continue // a payload need not have it, and a link may lead anywhere
		}
		if err := unix.Mount(m.source, target, m.fstype, m.flags, m.data); err != nil {
			return fmt.Errorf("enter root %s: mount /%s: %w", s.Root, m.target, err)
		}
	}
	if err := os.Chdir(s.Root); err != nil {
		return fmt.Errorf("enter root: %w", err)
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("enter root %s: move: %w", s.Root, err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("enter root %s: %w", s.Root, err)
	}
	return nil
}

// openedFolder is one that has its place in the root yet to come.
type openedFolder struct {
	tree int
	at   string
}

type openedFolders []openedFolder

// openFolders takes hold of them as long as they can be reached, and before the
// machine's mounts are cut off from what is mounted here.
func (s *Setup) openFolders() (openedFolders, error) {
	var out openedFolders
	if s.Root == "" {
		return nil, nil // they are there
	}
	for _, f := range s.Folders {
		tree, err := unix.OpenTree(unix.AT_FDCWD, f.Source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
		if err != nil {
			return nil, fmt.Errorf("open folder %s: %w", f.Source, err)
		}
		out = append(out, openedFolder{tree, f.At})
	}
	return out, nil
}

// attach puts them in place, when the root is entered: no link leads out of it.
func (all openedFolders) attach() error {
	for _, f := range all {
		if err := os.MkdirAll(f.at, 0o755); err != nil {
			return fmt.Errorf("attach folder: %w", err)
		}
		if err := unix.MoveMount(f.tree, "", unix.AT_FDCWD, f.at, unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_SYMLINKS); err != nil {
			return fmt.Errorf("attach folder %s: %w", f.at, err)
		}
		_ = unix.Close(f.tree)
	}
	return nil
}

func enterDir(dir string) error {
	if dir == "" {
		return nil
	}
	return os.Chdir(dir) // its error names all
}

// become gives up first what the program must not have back: what is outside
// the bounding set is lost by exec, even to root.
func (s *Setup) become(who account) error {
	if s.Confined {
		if err := s.bound(); err != nil {
			return err
		}
		if err := unix.Prctl(unix.PR_SET_KEEPCAPS, 1, 0, 0, 0); err != nil {
			return fmt.Errorf("keep capabilities: %w", err)
		}
	}
	if err := who.become(); err != nil {
		return err
	}
	if s.Confined {
		return s.setCapabilities()
	}
	return nil
}

// bound drops what the service must not have from the bounding set.
func (s *Setup) bound() error {
	for c := uintptr(0); c < 64; c++ {
		if s.Capabilities&(1<<c) != 0 {
			continue
		}
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err == unix.EINVAL {
			return nil // past the last that the kernel knows
		}
		if err != nil {
			return fmt.Errorf("drop capability %d: %w", c, err)
		}
	}
	return nil
}

// setCapabilities makes what the program shall have ambient, so that exec keeps
// it for users other than root too.
func (s *Setup) setCapabilities() error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	for i := range data {
		set := uint32(s.Capabilities >> (32 * i))
		data[i] = unix.CapUserData{Effective: set, Permitted: set, Inheritable: set}
	}
	if err := unix.Capset(&header, &data[0]); err != nil {
		return fmt.Errorf("set capabilities: %w", err)
	}
	for c := range 64 {
		if s.Capabilities&(1<<c) == 0 {
			continue
		}
		if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, uintptr(c), 0, 0); err != nil {
			return fmt.Errorf("keep capability %d: %w", c, err)
		}
	}
	return nil
}

func (s *Setup) noNewPrivileges() error {
	if !s.NoNewPrivileges {
		return nil
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("set no_new_privs: %w", err)
	}
	return nil
}

// account resolves the user by the files of the root that was just entered.
func (s *Setup) account() (account, error) {
	passwd, err := readOptional("/etc/passwd")
	if err != nil {
		return account{}, fmt.Errorf("set user %s: %w", s.User, err)
	}
	group, err := readOptional("/etc/group")
	if err != nil {
		return account{}, fmt.Errorf("set group %s: %w", s.Group, err)
	}
	return findAccount(s.User, s.Group, passwd, group)
}

func readOptional(file string) ([]byte, error) {
	text, err := os.ReadFile(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil // numbers need none
	}
	return text, err
}

func (a account) become() error {
	if err := syscall.Setgroups(a.groups); err != nil {
		return fmt.Errorf("set groups: %w", err)
	}
	if err := syscall.Setresgid(a.gid, a.gid, a.gid); err != nil {
		return fmt.Errorf("set group %d: %w", a.gid, err)
	}
	if err := syscall.Setresuid(a.uid, a.uid, a.uid); err != nil {
		return fmt.Errorf("set user %d: %w", a.uid, err)
	}
	return nil
}
