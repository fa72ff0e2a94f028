package bench

import (
	"fmt"
	"net"
	"os"
	"syscall"
)

// fdTable hands connected sockets to a child: it gets descriptors, so no socket
// has a path that could be too long, taken, or left behind, and QEMU never runs
// without its peer, which would make it throw a serial port's output away.
type fdTable struct {
	names []string
	files []*os.File
}

// wire makes a connection; the child's end gets a name.
func (t *fdTable) wire(name string) (net.Conn, error) {
	ours, theirs, err := wire()
	if err != nil {
		return nil, err
	}
	defer ours.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		theirs.Close()
		return nil, err
	}
	t.add(name, theirs)
	return conn, nil
}

func (t *fdTable) add(name string, f *os.File) {
	t.names = append(t.names, name)
	t.files = append(t.files, f)
}

// chardev is QEMU's argument for the connection of that name.
func (t fdTable) chardev(name string) string {
	for i, n := range t.names {
		if n == name {
			return fmt.Sprintf("socket,id=%s,fd=%d", name, 3+i)
		}
	}
	panic("bench: no descriptor named " + name)
}

// take gives the files away.
func (t *fdTable) take() []*os.File {
	files := t.files
	t.files = nil
	return files
}

func (t *fdTable) close() {
	for _, f := range t.files {
		f.Close()
	}
}

// wire is a connected pair: our end, and the file for the child's.
func wire() (ours, theirs *os.File, err error) {
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC|syscall.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	return os.NewFile(uintptr(fds[0]), "wire"), os.NewFile(uintptr(fds[1]), "wire"), nil
}
