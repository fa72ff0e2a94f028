package proc

import (
	"bytes"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// joined are the namespaces that a process can enter by itself.
const joined = unix.CLONE_NEWNS | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWNET

// join enters the namespaces and the root of a process, as nsenter(1) does.
func (s *Setup) join() error {
	if s.Join == 0 {
		return nil
	}
	process, err := unix.PidfdOpen(s.Join, 0)
	if err != nil {
		return fmt.Errorf("enter namespaces of pid %d: %w", s.Join, err)
	}
	defer unix.Close(process)
	root, err := unix.Open(fmt.Sprintf("/proc/%d/root", s.Join), unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("open root of pid %d: %w", s.Join, err)
	}
	defer unix.Close(root)
	if !inCgroup(s.Join, s.Cgroup) { // looked at after both were opened: they are of this process or of none
		return fmt.Errorf("enter namespaces of pid %d: it is not of the service", s.Join)
	}
	// A thread that shares its root with others cannot enter another mount
	// namespace (setns(2)).
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return fmt.Errorf("separate root: %w", err)
	}
	if err := unix.Setns(process, joined); err != nil {
		return fmt.Errorf("enter namespaces of pid %d: %w", s.Join, err)
	}
	if err := unix.Fchdir(root); err != nil {
		return fmt.Errorf("enter root of pid %d: %w", s.Join, err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("enter root of pid %d: %w", s.Join, err)
	}
	return nil
}

// inCgroup tells whether a process is in the cgroup with this folder, or below.
func inCgroup(pid int, folder string) bool {
	of, err := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	_, path, found := bytes.Cut(bytes.TrimSpace(of), []byte("0::"))
	return err == nil && found && underCgroup(string(path), folder)
}
