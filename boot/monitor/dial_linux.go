package monitor

import (
	"context"
	"fmt"
	"net"
	"os"
	"runtime"
	"slices"

	"golang.org/x/sys/unix"
)

// dial connects to the service as from beside it: in its root for a socket's
// path, in its network for an address.
func (m *monitor) dial(ctx context.Context, network, address string) (net.Conn, error) {
	s := m.target.Service
	if network == "unix" {
		root := "/"
		if s.Payload != "" || slices.Contains(s.Namespaces, "mount") {
			root = fmt.Sprintf("/proc/%d/root", m.target.PID)
		}
		return dialUnder(ctx, root, address)
	}
	if network == "tcp" && slices.Contains(s.Namespaces, "net") {
		return dialIn(ctx, fmt.Sprintf("/proc/%d/ns/net", m.target.PID), network, address)
	}
	return new(net.Dialer).DialContext(ctx, network, address)
}

// dialUnder connects to a socket as who has this root finds it: its links lead
// nowhere else (openat2(2), RESOLVE_IN_ROOT). However long the path, it fits
// into a socket's address as what it was opened as.
func dialUnder(ctx context.Context, root, path string) (net.Conn, error) {
	dir, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", root, err)
	}
	defer unix.Close(dir)
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC, Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_MAGICLINKS}
	socket, err := unix.Openat2(dir, path, &how)
	for (err == unix.EAGAIN || err == unix.EINTR) && ctx.Err() == nil { // EAGAIN: something was renamed meanwhile
		socket, err = unix.Openat2(dir, path, &how)
	}
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", path, err)
	}
	defer unix.Close(socket)
	return new(net.Dialer).DialContext(ctx, "unix", fmt.Sprintf("/proc/self/fd/%d", socket))
}

// dialIn connects from another network namespace. A thread that has entered one
// is of no use to the others: it ends with its goroutine, which never unlocks it.
func dialIn(ctx context.Context, namespace, network, address string) (net.Conn, error) {
	type result struct {
		conn net.Conn
		err  error
	}
	done := make(chan result, 1)
	go func() {
		runtime.LockOSThread()
		if err := enter(namespace); err != nil {
			done <- result{nil, err}
			return
		}
		conn, err := new(net.Dialer).DialContext(ctx, network, address) // one address: the socket is made on this thread
		done <- result{conn, err}
	}()
	r := <-done
	return r.conn, r.err
}

func enter(namespace string) error {
	f, err := os.Open(namespace)
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter %s: %w", namespace, err)
	}
	return nil
}
