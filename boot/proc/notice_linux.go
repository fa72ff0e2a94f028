package proc

import (
	"fmt"
	"net"
	"strings"

	"golang.org/x/sys/unix"
)

// notifyAddress is the notify socket of an incarnation. An abstract name has no
// file: it is there in every root that a service may have, though not in a
// network namespace of its own.
func notifyAddress(spec Spec) string {
	return fmt.Sprintf("@reveille/notify/%s/%d", spec.Name, spec.Incarnation)
}

// listenNotify opens the socket; it must be there before the process is.
func listenNotify(spec Spec) (*net.UnixConn, error) {
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: notifyAddress(spec), Net: "unixgram"})
	if err != nil {
		return nil, fmt.Errorf("open notify socket: %w", err)
	}
	raw, err := conn.SyscallConn()
	if err == nil {
		var refused error
		err = raw.Control(func(fd uintptr) { refused = unix.SetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_PASSCRED, 1) })
		if err == nil {
			err = refused
		}
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("open notify socket: %w", err)
	}
	return conn, nil
}

// hear takes up what the process says until conn is closed. Anybody can send to
// the socket; the kernel says who did, and only the process's own cgroup counts.
func (b *noticeBoard) hear(conn *net.UnixConn, p Process, status func(string)) {
	message := make([]byte, maxNotice)
	// No room for file descriptors, so the kernel closes those that come
	// (sd_notify's FDSTORE and BARRIER): the sender of a barrier goes on then.
	control := make([]byte, unix.CmsgSpace(unix.SizeofUcred))
	for {
		n, cn, _, _, err := conn.ReadMsgUnix(message, control)
		if err != nil {
			return
		}
		if !belongs(sender(control[:cn]), p) {
			continue
		}
		if text := b.take(message[:n]); text != "" && status != nil {
			status(text)
		}
	}
}

// sender is the pid of a message, 0 if the kernel does not say.
func sender(control []byte) int {
	messages, err := unix.ParseSocketControlMessage(control)
	if err != nil {
		return 0
	}
	for _, m := range messages {
		if cred, err := unix.ParseUnixCredentials(&m); err == nil {
			return int(cred.Pid)
		}
	}
	return 0
}

// belongs tells whether a pid is the process, or of its cgroup.
func belongs(pid int, p Process) bool {
	if pid == p.PID {
		return true
	}
	return pid > 0 && p.Setup != nil && p.Setup.Cgroup != "" && inCgroup(pid, p.Setup.Cgroup)
}

// underCgroup tells whether a path as /proc/PID/cgroup has it (cgroups(7)) is
// the cgroup with this folder, or below it.
func underCgroup(path, folder string) bool {
	path += "/"
	return path != "/" && strings.HasPrefix(path, strings.TrimPrefix(folder, cgroupRoot)+"/")
}

// cgroupRoot is where init mounts the hierarchy.
const cgroupRoot = "/sys/fs/cgroup"
