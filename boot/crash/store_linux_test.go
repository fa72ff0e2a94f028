package crash

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"
)

// numbered are n records in the order of their time.
func numbered(n int) (raws [][]byte, ids []string) {
	for i := range n {
		r := sample()
		r.Incarnation, r.Time = uint64(i), r.Time.Add(time.Duration(i)*time.Minute)
		raws = append(raws, r.Encode())
		ids = append(ids, ID(raws[i]))
	}
	return raws, ids
}

func prepared(t *testing.T) (dir string, s *Store) {
	t.Helper()
	dir = filepath.Join(t.TempDir(), "reveille", "crash")
	return dir, reopen(t, dir)
}

func reopen(t *testing.T, dir string, want ...string) *Store {
	t.Helper()
	s, all, err := OpenStore(dir)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, st := range all {
		got = append(got, st.ID)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the disk holds other records (-want +got):\n%s", diff)
	}
	if err := s.Prepare(); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestStoreKeepsTheNewest(t *testing.T) {
	dir, s := prepared(t)
	raws, ids := numbered(slots + 2)
	for i, raw := range raws {
		if err := s.Put(raw, ids[max(i-slots, 0)]); err != nil {
			t.Fatal(err)
		}
		if err := s.Put(raw, ""); err != nil { // again: the same
			t.Fatal(err)
		}
	}
	s = reopen(t, dir, ids[2:]...)
	if err := s.Put(raws[0], ""); !errors.Is(err, errFull) {
		t.Errorf("put into a full store: %v", err)
	}
	for _, id := range []string{ids[2], ids[4], "ffffffffffffffff", ""} {
		if err := s.Remove(id); err != nil {
			t.Fatal(err)
		}
	}
	if s.Holds(ids[2]) || !s.Holds(ids[3]) || s.Holds("") {
		t.Error("the wrong one was removed")
	}
	reopen(t, dir, append([]string{ids[3]}, ids[5:]...)...)
}

// TestOrderIsNotTheClocks: each death has an earlier time than the one before
// it, as on a machine whose clock goes back; the newest must stay all the same.
func TestOrderIsNotTheClocks(t *testing.T) {
	dir, s := prepared(t)
	raws, ids := numbered(slots + 2)
	slices.Reverse(raws)
	slices.Reverse(ids)
	for i, raw := range raws {
		if i == 3 {
			s = reopen(t, dir, ids[:3]...)
		}
		if err := s.Put(raw, ids[max(i-slots, 0)]); err != nil {
			t.Fatal(err)
		}
	}
	reopen(t, dir, ids[2:]...)
	// The power went before a slot's last sector was written: by the times then.
	if err := overwrite(filepath.Join(dir, "crash.4"), chunk{MaxRecord, make([]byte, orderSize)}); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, dir, append([]string{ids[4], ids[2], ids[3]}, ids[5:]...)...)
	if err := s.Remove(ids[9]); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(raws[0], ""); err != nil {
		t.Fatal(err)
	}
	reopen(t, dir, append([]string{ids[4], ids[2], ids[3], ids[5], ids[6], ids[7], ids[8]}, ids[0])...)
}

// TestPutPassesOverABadSlot: one that can be written no more.
func TestPutPassesOverABadSlot(t *testing.T) {
	dir, s := prepared(t)
	bad := filepath.Join(dir, "crash.0")
	if err := errors.Join(os.Remove(bad), os.Symlink("/dev/full", bad)); err != nil {
		t.Fatal(err)
	}
	raws, ids := numbered(slots)
	for i, raw := range raws { // the last finds all others full
		if err := s.Put(raw, ids[0]); err != nil || !s.Holds(ids[i]) {
			t.Errorf("record %d is not on the disk: %v", i, err)
		}
	}
	if s.Holds(ids[0]) || !s.Holds(ids[1]) {
		t.Error("another than the oldest gave way")
	}
}

// TestTornRecordHarmsNoOther cuts the write of a record at each of its sectors.
func TestTornRecordHarmsNoOther(t *testing.T) {
	dir, s := prepared(t)
	raws, ids := numbered(3)
	for _, raw := range raws[:2] {
		if err := s.Put(raw, ""); err != nil {
			t.Fatal(err)
		}
	}
	for n := 1; n < len(raws[2]); n += 64 {
		if err := overwrite(filepath.Join(dir, "crash.2"), chunk{0, raws[2][:n]}); err != nil {
			t.Fatal(err)
		}
		reopen(t, dir, ids[:2]...)
	}
	// Over a slot that has an older record, too.
	if err := overwrite(filepath.Join(dir, "crash.1"), chunk{0, raws[2][:100]}); err != nil {
		t.Fatal(err)
	}
	s = reopen(t, dir, ids[0])
	if err := s.Put(raws[2], ""); err != nil {
		t.Fatal(err)
	}
	reopen(t, dir, ids[0], ids[2])
}

// TestPrepareGoesOnWhereItWasCut: files that the power cut short get their size.
func TestPrepareGoesOnWhereItWasCut(t *testing.T) {
	dir, _ := prepared(t)
	if err := os.Truncate(filepath.Join(dir, "crash.3"), 1000); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, "crash.5")); err != nil {
		t.Fatal(err)
	}
	reopen(t, dir)
	for i := range slots {
		info, err := os.Stat(filepath.Join(dir, fmt.Sprintf("crash.%d", i)))
		if err != nil || info.Size() != slotSize {
			t.Errorf("%v, %v", info, err)
		}
	}
}

// smallDisk is a file system of kib KiB, which only this test's thread sees.
func smallDisk(t *testing.T, kib int) string {
	t.Helper()
	runtime.LockOSThread() // for ever: the thread ends with the test, and its mounts with it
	dir := t.TempDir()
	if err := errors.Join(
		unix.Unshare(unix.CLONE_NEWNS),
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("none", dir, "tmpfs", 0, fmt.Sprintf("size=%dk", kib)),
	); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestPrepareLeavesRoom: the configs need some of a small disk.
func TestPrepareLeavesRoom(t *testing.T) {
	disk := smallDisk(t, 2048)
	s, _, err := OpenStore(filepath.Join(disk, "crash"))
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // the second time, nothing grows
		if err := s.Prepare(); !errors.Is(err, ErrNearlyFull) {
			t.Fatalf("prepare: %v", err)
		}
		free, err := freeBytes(disk)
		if err != nil || free < reserve || free >= reserve+slotSize {
			t.Errorf("%d KiB are free, %v", free>>10, err)
		}
	}
	raws, ids := numbered(5)
	for i, raw := range raws { // what is there serves
		if err := s.Put(raw, ids[max(i-4, 0)]); err != nil {
			t.Fatal(err)
		}
	}
	if s.Holds(ids[0]) || !s.Holds(ids[4]) {
		t.Error("the oldest did not give way")
	}
}

// TestPrepareGivesBack what it took of a disk that filled up meanwhile.
func TestPrepareGivesBack(t *testing.T) {
	disk := smallDisk(t, 1000) // three slots, and a part of one
	s, _, err := OpenStore(filepath.Join(disk, "crash"))
	if err != nil {
		t.Fatal(err)
	}
	s.free = func(string) (uint64, error) { return 1 << 30, nil }
	if err := s.Prepare(); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("prepare: %v", err)
	}
	free, err := freeBytes(disk)
	if want := uint64(1000<<10 - 3*slotSize); err != nil || free != want {
		t.Errorf("%d bytes are free, want %d, %v", free, want, err)
	}
	raws, _ := numbered(1)
	if err := s.Put(raws[0], ""); err != nil {
		t.Error(err)
	}
}

func TestJournal(t *testing.T) {
	j := Journal{filepath.Join(t.TempDir(), "reveille", "crash")}
	if _, err := j.Read(); !errors.Is(err, ErrBlank) {
		t.Errorf("read of none: %v", err)
	}
	for _, want := range []Entry{{BootID: "a"}, {BootID: "a", Clean: true, Reason: "reboot"}, {BootID: "b"}} {
		if err := j.Write(want); err != nil {
			t.Fatal(err)
		}
		if got, err := j.Read(); err != nil || got != want {
			t.Errorf("got %v, %v, want %v", got, err, want)
		}
	}
	if err := os.Truncate(j.path(), 100); err != nil {
		t.Fatal(err)
	}
	if _, err := j.Read(); !errors.Is(err, ErrCorrupt) {
		t.Errorf("read of a torn one: %v", err)
	}
}
