package console

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// pty makes a pseudo terminal: what a port writes comes out of the master.
func pty(t *testing.T) (master *os.File, spec Spec, dir string) {
	t.Helper()
	fd, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	master = os.NewFile(uintptr(fd), "ptmx")
	t.Cleanup(func() { master.Close() })
	if err := unix.IoctlSetPointerInt(fd, unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(fd, unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	return master, Spec{Name: fmt.Sprint(n), Kind: Serial, Baud: 9600}, "/dev/pts"
}

func openPty(t *testing.T) (*os.File, *tty) {
	t.Helper()
	master, spec, dir := pty(t)
	p, err := Open(dir, spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return master, p.(*tty)
}

func TestOpenSetsATerminalUp(t *testing.T) {
	master, p := openPty(t)
	if p.Baud() != 9600 {
		t.Errorf("speed %d", p.Baud())
	}
	if _, err := p.Write([]byte("bytes as they are\r\n")); err != nil {
		t.Fatal(err)
	}
	buf := make([]byte, 100)
	n, err := master.Read(buf)
	if err != nil || string(buf[:n]) != "bytes as they are\r\n" {
		t.Errorf("read %q, %v", buf[:n], err)
	}
}

func TestXOFFDoesNotStopOutput(t *testing.T) {
	master, p := openPty(t)
	master.Write([]byte("\x13\x03\x1a\x00noise\x13"))
	if n, err := p.Write([]byte("still here")); n != 10 || err != nil {
		t.Errorf("after XOFF: %d, %v", n, err)
	}
}

func TestFullTerminalRefuses(t *testing.T) {
	_, p := openPty(t)
	line := []byte(strings.Repeat("x", 99) + "\n")
	for range 10000 {
		if _, err := p.Write(line); errors.Is(err, unix.EAGAIN) {
			if err := p.Flush(); err != nil {
				t.Error(err)
			}
			return
		} else if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("takes everything")
}

func TestKeepRestoresSettings(t *testing.T) {
	_, p := openPty(t)
	if changed, err := p.Keep(); changed || err != nil {
		t.Fatalf("changed %v, %v right after open", changed, err)
	}
	// What a getty, or a stray stty, does.
	other, _ := unix.IoctlGetTermios(p.fd, unix.TCGETS)
	other.Iflag |= unix.IXON
	other.Oflag |= unix.OPOST | unix.ONLCR
	other.Lflag |= unix.ICANON | unix.ECHO
	unix.IoctlSetTermios(p.fd, unix.TCSETS, other)
	unix.IoctlSetInt(p.fd, unix.TCXONC, unix.TCOOFF)
	if _, err := p.Write([]byte("x")); !errors.Is(err, unix.EAGAIN) {
		t.Fatalf("a stopped terminal takes output: %v", err)
	}
	if changed, err := p.Keep(); !changed || err != nil {
		t.Fatalf("changed %v, %v", changed, err)
	}
	if n, err := p.Write([]byte("x")); n != 1 || err != nil {
		t.Errorf("after Keep: %d, %v", n, err)
	}
	now, _ := unix.IoctlGetTermios(p.fd, unix.TCGETS2)
	if *now != p.want {
		t.Errorf("settings %+v, want %+v", *now, p.want)
	}
}

func TestEngineOnATerminalThatStopsAndGoesOn(t *testing.T) {
	master, spec, dir := pty(t)
	log := NewLog(DefaultLimits(), BootTime)
	e := NewEngine(log, Options{State: func() []string { return []string{"stage steady"} }})
	e.Add(spec, func() (Port, error) { return Open(dir, spec) })
	log.Append("netcfg", Info, "bond0 up")
	waitFor(t, func() bool { return e.Stats()[0].Shown > 0 })
	master.SetReadDeadline(time.Now().Add(5 * time.Second))
	seen := readUntil(t, master, "bond0 up")
	if !strings.Contains(seen, "netcfg        I bond0 up\r\n") {
		t.Errorf("terminal shows %q", seen)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	e.Close(ctx)
	if ctx.Err() != nil {
		t.Error("close had to be given up")
	}
}

// A terminal that is hung up answers EIO, as a UART does whose card was pulled.
// It is opened again, and shows where things stand.
func TestEngineOnATerminalThatGoesAndComes(t *testing.T) {
	first, before, dir := pty(t)
	second, after, _ := pty(t)
	log := NewLog(DefaultLimits(), BootTime)
	e := NewEngine(log, Options{State: func() []string { return []string{"stage steady"} }})
	next := before
	e.Add(serial, func() (Port, error) {
		defer func() { next = after }()
		return Open(dir, next)
	})
	log.Append("netcfg", Info, "bond0 up")
	readUntil(t, first, "bond0 up")
	first.Close()
	log.Append("netcfg", Error, "said to nobody")
	seen := readUntil(t, second, "said to nobody")
	if !strings.Contains(seen, "took nothing for") || !strings.Contains(seen, "S stage steady") {
		t.Errorf("terminal shows %q", seen)
	}
	if recs, _, _ := log.Read(1, Filter{Origins: []string{"console"}}, 9); len(recs) == 0 || !strings.Contains(recs[0].Text, unix.EIO.Error()) {
		t.Errorf("the log has %+v", recs)
	}
	e.Close(t.Context())
}

func readUntil(t *testing.T, r io.Reader, want string) string {
	t.Helper()
	var all strings.Builder
	buf := make([]byte, 4096)
	for !strings.Contains(all.String(), want+"\r\n") {
		n, err := r.Read(buf)
		all.Write(buf[:n])
		if err != nil {
			t.Fatalf("no %q in %q: %v", want, all.String(), err)
		}
	}
	return all.String()
}

func TestOpenRefusals(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "ttyS0"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(dir, serial); !errors.Is(err, unix.ENOTTY) {
		t.Errorf("a plain file: %v", err)
	}
	if _, err := Open(dir, Spec{Name: "ttyS1"}); !errors.Is(err, unix.ENOENT) {
		t.Errorf("no file: %v", err)
	}
}
