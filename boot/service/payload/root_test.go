package payload

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"reveille/boot/service"
)

// inMounts runs the test again in a process with mounts of its own, whose dir is
// a tmpfs; the one that was started first returns false.
func inMounts(t *testing.T) (dir string, inside bool) {
	t.Helper()
	const mark = "REVEILLE_TEST_MOUNTS"
	if dir := os.Getenv(mark); dir != "" {
		err := errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount("t", dir, "tmpfs", 0, ""))
		if err != nil {
			t.Fatal(err)
		}
		return dir, true
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), mark+"="+t.TempDir())
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v:\n%s", err, out)
	}
	return "", false
}

// Two incarnations share a payload, and neither sees what the other wrote.
func TestRoots(t *testing.T) {
	dir, inside := inMounts(t)
	if !inside {
		return
	}
	files := filepath.Join(dir, "payload")
	write(t, filepath.Join(files, "etc/x"), []byte("1"))
	one, two := filepath.Join(dir, "a-1"), filepath.Join(dir, "a-2")
	for _, at := range []string{one, two} {
		root, err := Root(files, at)
		if err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(root, "etc/own"), []byte(at))
	}
	want := []string{"dev/", "etc/", "etc/own=" + two, "etc/x=1", "proc/", "run/", "sys/", "tmp/"}
	if got := listing(t, filepath.Join(two, "root")); !slices.Equal(got, want) {
		t.Errorf("got %v", got)
	}
	for range 2 { // again is harmless
		if err := errors.Join(Remove(one), Remove(two)); err != nil {
			t.Fatal(err)
		}
	}
	if got := listing(t, dir); !slices.Equal(got, []string{"payload/", "payload/etc/", "payload/etc/x=1"}) {
		t.Errorf("left %v", got)
	}
}

// There is room for two payloads. What the third needs comes of those that
// nobody wants and no root has, and of what a killed agent left.
func TestRoomForAnother(t *testing.T) {
	dir, inside := inMounts(t)
	if !inside {
		return
	}
	var wanted []service.Payload
	s := store(t)
	s.Dir, s.Wanted = filepath.Join(dir, "store"), func() []service.Payload { return wanted }
	if err := errors.Join(os.Mkdir(s.Dir, 0o700), unix.Mount("t", s.Dir, "tmpfs", 0, "size=1m")); err != nil {
		t.Fatal(err)
	}
	made := func(name string) service.Payload {
		b := archive(t, name+"="+strings.Repeat(name, 400<<10))
		return service.Payload{Name: name, Source: write(t, filepath.Join(dir, name+".tar"), b), Digest: digestOf(b)}
	}
	has := func(want ...service.Payload) {
		t.Helper()
		entries, err := os.ReadDir(s.Dir)
		if err != nil || len(entries) != len(want) {
			t.Fatalf("got %v, %v", entries, err)
		}
		for _, p := range want {
			if _, err := os.Stat(filepath.Join(s.Dir, strings.TrimPrefix(p.Digest, "sha256:"), p.Name)); err != nil {
				t.Error(err)
			}
		}
	}
	a, b, c, d := made("a"), made("b"), made("c"), made("d")
	root := filepath.Join(dir, "a-1")
	write(t, filepath.Join(s.Dir, ".00.new", "x"), make([]byte, 700<<10)) // of a killed agent
	err := s.Unpack(t.Context(), a, func(files string) error {
		_, err := Root(files, root)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := unpack(s, t.Context(), b); err != nil {
		t.Fatal(err)
	}
	has(a, b)
	if _, err := unpack(s, t.Context(), c); err != nil { // in place of b
		t.Fatal(err)
	}
	has(a, c)
	wanted = []service.Payload{c}
	if _, err := unpack(s, t.Context(), d); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("got %v", err)
	}
	has(a, c)
	if err := Remove(root); err != nil {
		t.Fatal(err)
	}
	if _, err := unpack(s, t.Context(), d); err != nil { // in place of a
		t.Fatal(err)
	}
	has(c, d)
}

// A folder is the same for all who name it, mounts in it included.
func TestFolder(t *testing.T) {
	dir, inside := inMounts(t)
	if !inside {
		return
	}
	folders := filepath.Join(dir, "folders")
	at, err := Folder(folders, "/var/lib/a", 7, 8)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Folder(folders, "/var/lib/a", 9, 9); err != nil || again != at {
		t.Errorf("got %s, %v", again, err)
	}
	if other, err := Folder(folders, "/var/lib+a", 0, 0); err != nil || other == at {
		t.Errorf("another path is %s, %v", other, err)
	}
	var st unix.Stat_t
	if err := unix.Stat(at, &st); err != nil || st.Uid != 7 || st.Gid != 8 {
		t.Errorf("owner %d:%d, %v", st.Uid, st.Gid, err)
	}
	seen := filepath.Join(dir, "seen")
	err = errors.Join(os.Mkdir(seen, 0o755), unix.Mount(at, seen, "", unix.MS_BIND|unix.MS_REC, ""),
		os.Mkdir(filepath.Join(at, "m"), 0o755), unix.Mount("m", filepath.Join(seen, "m"), "tmpfs", 0, ""))
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(seen, "m/x"), []byte("1"))
	if got := listing(t, at); !slices.Equal(got, []string{"m/", "m/x=1"}) {
		t.Errorf("what was mounted by another is not seen: %v", got)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if n := strings.Count(string(mounts), " "+at+" "); err != nil || n != 1 {
		t.Errorf("mounted %d times, %v", n, err)
	}
}
