package pid1

import (
	"bytes"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reveille/boot/crash"
	"reveille/boot/proc"
	"reveille/console"
)

// machine is a place for records over several boots of a test.
type machine struct {
	t        *testing.T
	dir      string
	boots    int
	mounted  bool
	readOnly bool // the partition's folder cannot be made
	patience time.Duration
}

func newMachine(t *testing.T) *machine {
	return &machine{t: t, dir: t.TempDir(), mounted: true, patience: time.Hour}
}

// said is a log of lines.
type said struct {
	mu    sync.Mutex
	lines []string
}

func (s *said) say(level console.Level, format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lines = append(s.lines, string(level.Letter())+" "+fmt.Sprintf(format, args...))
}

func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return strings.Join(s.lines, "\n")
}

// boot is a recorder of a new boot, not running.
func (m *machine) boot() (*recorder, *said) {
	m.boots++
	id := fmt.Sprintf("boot%d", m.boots)
	dir := filepath.Join(m.dir, "state", "reveille", "crash")
	if m.readOnly {
		dir = "/proc/reveille/crash"
	}
	log := new(said)
	r := newRecorder(func() string { return id }, recordDisk{
		dir: dir, mounted: func() bool { return m.mounted }, build: "test",
		pstore: filepath.Join(m.dir, "pstore"), pmsg: filepath.Join(m.dir, "pmsg0"),
		watchdog: filepath.Join(m.dir, "watchdog*"), missing: time.Now().Add(m.patience),
	}, log.say)
	return r, log
}

// die adds a record of this boot.
func (r *recorder) die(n int) (id string) {
	raw := crash.Record{Kind: crash.Agent, BootID: r.bootID(), Incarnation: uint64(n), Reason: fmt.Sprintf("panic: %d", n),
		Time: time.Unix(int64(n), 0).UTC(), Trace: bytes.Repeat([]byte("goroutine\n"), 10000)}.Encode()
	r.add(raw)
	return crash.ID(raw)
}

func (r *recorder) ids(t *testing.T) string {
	t.Helper()
	list, err := r.list(t.Context(), proc.Nothing{})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, id := range list {
		ids = append(ids, id.ID)
	}
	return strings.Join(ids, " ")
}

func wantLines(t *testing.T, log *said, want ...string) {
	t.Helper()
	for i, line := range want {
		want[i] = strings.ReplaceAll(line, "\n", " ")
	}
	if got := log.String(); got != strings.Join(want, "\n") {
		t.Errorf("said\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// small gives the machine a disk of kib KiB, which only this test's thread sees.
func (m *machine) small(kib int) {
	m.t.Helper()
	runtime.LockOSThread() // for ever: the thread ends with the test, and its mounts with it
	if err := errors.Join(
		unix.Unshare(unix.CLONE_NEWNS),
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("none", m.dir, "tmpfs", 0, fmt.Sprintf("size=%dk", kib)),
	); err != nil {
		m.t.Fatal(err)
	}
	m.t.Cleanup(func() {
		if err := unix.Unmount(m.dir, 0); err != nil {
			m.t.Error(err)
		}
	})
}
