package modules

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// Open makes the loader for the running kernel from the image's index below
// root, "/" on a node. An error that wraps fs.ErrNotExist says that the image
// has no modules for this kernel.
func Open(root string, log *slog.Logger) (*Loader, error) {
	var uts unix.Utsname
	if err := unix.Uname(&uts); err != nil {
		return nil, fmt.Errorf("read kernel release: %w", err)
	}
	dir := filepath.Join(root, "lib/modules", unix.ByteSliceToString(uts.Release[:]))
	data, err := os.ReadFile(filepath.Join(dir, IndexFile))
	if err != nil {
		return nil, fmt.Errorf("open module index: %w", err)
	}
	ix, err := ParseIndex(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	return newLoader(ix, running{dir: dir, sys: "/sys/devices"}, log), nil
}

// running is the kernel that we run on.
type running struct{ dir, sys string }

func (k running) insert(path, options string) error {
	f, err := os.Open(filepath.Join(k.dir, path))
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.FinitModule(int(f.Fd()), options, 0); err != nil && !errors.Is(err, unix.EEXIST) {
		return os.NewSyscallError("finit_module", err)
	}
	return nil
}

// modaliases walks /sys/devices, whose order is the order of the buses, so that
// two boots of one machine load in the same order. A device that goes away
// during the walk is not an error.
func (k running) modaliases() ([]string, error) {
	var found []string
	known := map[string]bool{}
	err := filepath.WalkDir(k.sys, func(path string, d fs.DirEntry, err error) error {
		if err != nil && path == k.sys {
			return err
		}
		if err != nil || d.Name() != "modalias" {
			return nil
		}
		b, err := os.ReadFile(path)
		if alias := string(bytes.TrimSpace(b)); err == nil && alias != "" && !known[alias] {
			known[alias] = true
			found = append(found, alias)
		}
		return nil
	})
	return found, err
}

// ueventBuffer holds a burst of hot-plug (some 100 events at most 2 KiB each,
// UEVENT_BUFFER_SIZE) while a module loads; beyond it we rescan.
const ueventBuffer = 256 << 10

// Watch loads modules for devices that appear from now on, and tells each what
// the kernel announced, after the loading. It begins with one Coldplug, so that
// nothing falls between that and the first event, and repeats it, with a Rescan
// event, when the kernel dropped events. It ends with ctx.
func (l *Loader) Watch(ctx context.Context, each func(Event)) error {
	sock, err := openUevents()
	if err != nil {
		return err
	}
	defer sock.Close()
	defer context.AfterFunc(ctx, func() { sock.Close() })()
	if err := l.Coldplug(ctx); err != nil {
		return err
	}
	for {
		e, err := readEvent(sock)
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case errors.Is(err, unix.ENOBUFS):
			l.log.Warn("the kernel dropped device events, looking at all devices again")
			if err := l.Coldplug(ctx); err != nil {
				return err
			}
			e = Event{Action: Rescan}
		case err != nil:
			return fmt.Errorf("read uevent: %w", err)
		case e.Action == "add" && e.Modalias != "":
			l.device(e.Modalias)
		}
		if each != nil && e.Action != "" {
			each(e)
		}
	}
}

func openUevents() (*os.File, error) {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, unix.NETLINK_KOBJECT_UEVENT)
	if err != nil {
		return nil, fmt.Errorf("open uevent socket: %w", err)
	}
	f := os.NewFile(uintptr(fd), "uevents")
	// SO_RCVBUFFORCE needs CAP_NET_ADMIN; without it the default is fine, only
	// with more rescans.
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_RCVBUFFORCE, ueventBuffer)
	// Group 1 is what the kernel sends; 2 is udev's.
	if err := unix.Bind(fd, &unix.SockaddrNetlink{Family: unix.AF_NETLINK, Groups: 1}); err != nil {
		f.Close()
		return nil, fmt.Errorf("bind uevent socket: %w", err)
	}
	return f, nil
}

// readEvent waits for one datagram. An empty Event is one to ignore: not from
// the kernel (any process with CAP_NET_ADMIN may send to the group) or malformed.
func readEvent(sock *os.File) (Event, error) {
	raw, err := sock.SyscallConn()
	if err != nil {
		return Event{}, err
	}
	buf := make([]byte, 8<<10) // header and UEVENT_BUFFER_SIZE fit in 4 KiB
	var n int
	var from unix.Sockaddr
	var rerr error
	err = raw.Read(func(fd uintptr) bool {
		n, from, rerr = unix.Recvfrom(int(fd), buf, 0)
		return !errors.Is(rerr, unix.EAGAIN)
	})
	if err = errors.Join(err, rerr); err != nil {
		return Event{}, err
	}
	if nl, ok := from.(*unix.SockaddrNetlink); !ok || nl.Pid != 0 {
		return Event{}, nil
	}
	e, err := ParseEvent(buf[:n])
	if err != nil {
		return Event{}, nil
	}
	return e, nil
}

// None is the loader of an image without modules: what a device asks for is
// built into the kernel or not there.
func None(log *slog.Logger) *Loader {
	return newLoader(NewIndex(nil, nil), running{sys: "/sys/devices"}, log)
}
