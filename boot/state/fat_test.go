package state

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/diskfs/go-diskfs"
	diskfsdisk "github.com/diskfs/go-diskfs/disk"
	"github.com/diskfs/go-diskfs/filesystem"

	"golang.org/x/sys/unix"
)

// fatImage makes an image of one FAT file system.
func fatImage(tb testing.TB, path, label string, kind filesystem.Type, size int64) {
	tb.Helper()
	d, err := diskfs.Create(path, size, diskfs.SectorSizeDefault)
	if err != nil {
		tb.Fatal(err)
	}
	defer d.Close()
	if _, err := d.CreateFilesystem(diskfsdisk.FilesystemSpec{FSType: kind, VolumeLabel: label}); err != nil {
		tb.Fatal(err)
	}
}

var fatKinds = []struct {
	name string
	kind filesystem.Type
	size int64
}{
	{"FAT12", filesystem.TypeFat12, 1440 << 10},
	{"FAT16", filesystem.TypeFat16, 16 << 20},
	{"FAT32", filesystem.TypeFat32, 64 << 20},
}

func TestFATLabel(t *testing.T) {
	for _, kind := range fatKinds {
		t.Run(kind.name, func(t *testing.T) {
			image := filepath.Join(t.TempDir(), "image")
			fatImage(t, image, Label, kind.kind, kind.size)
			if got, err := probeLabel(image); err != nil || got != Label {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}

// labelled is a FAT16 boot sector with this label, and a root directory.
func labelled(boot string, root ...[]byte) []byte {
	b := make([]byte, 512)
	copy(b, []byte{0xEB, 0x3C, 0x90})
	copy(b[11:], []byte{0x00, 0x02, 4, 1, 0, 2, 0x00, 0x02}) // 512-byte sectors, 4 a cluster, 1 reserved, 2 FATs, 512 entries
	b[22] = 1                                                // sectors per FAT
	b[38] = 0x29
	copy(b[43:54], "           ")
	copy(b[43:54], boot)
	b[510], b[511] = 0x55, 0xAA
	b = append(b, make([]byte, 2*512)...)
	return append(b, bytes.Join(root, nil)...)
}

// labelled32 is the same for FAT32.
func labelled32(boot string, root ...[]byte) []byte {
	b := labelled("", root...)
	clear(b[17:19]) // no fixed root directory
	clear(b[22:54])
	b[36], b[44] = 1, 2 // sectors per FAT, root cluster
	b[66] = 0x29
	copy(b[71:82], "           ")
	copy(b[71:82], boot)
	return b
}

func dirEntry(name string, attr byte) []byte {
	e := make([]byte, dirEntryLen)
	copy(e, "           ")
	copy(e, name)
	e[11] = attr
	return e
}

func TestFATLabelPrecedence(t *testing.T) {
	end := make([]byte, dirEntryLen)
	deleted := dirEntry("REVEILLE", 0x08)
	deleted[0] = 0xE5
	for _, test := range []struct {
		name  string
		image []byte
		want  string
	}{
		{"boot sector only", labelled("REVEILLE", end), "REVEILLE"},
		{"root directory wins", labelled("NO NAME", dirEntry("REVEILLE", 0x08), end), "REVEILLE"},
		{"label with archive bit", labelled("NO NAME", dirEntry("REVEILLE", 0x28), end), "REVEILLE"},
		{"relabelled", labelled("REVEILLE", dirEntry("OTHER", 0x08), end), "OTHER"},
		{"a file of that name", labelled("NO NAME", dirEntry("REVEILLE", 0x20), end), "NO NAME"},
		{"a long name entry", labelled("NO NAME", dirEntry("REVEILLE", 0x0F), end), "NO NAME"},
		{"deleted", labelled("NO NAME", deleted, end), "NO NAME"},
		{"FAT32, boot sector only", labelled32("REVEILLE", end), "REVEILLE"},
		{"FAT32, root directory wins", labelled32("NO NAME", dirEntry("REVEILLE", 0x08), end), "REVEILLE"},
		{"beyond the end", labelled("NO NAME", end, dirEntry("REVEILLE", 0x08)), "NO NAME"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got, err := fatLabel(bytes.NewReader(test.image)); err != nil || got != test.want {
				t.Errorf("got %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func FuzzFATLabel(f *testing.F) {
	f.Add(labelled("REVEILLE", dirEntry("REVEILLE", 0x08)))
	f.Add(labelled32("REVEILLE", dirEntry("REVEILLE", 0x08)))
	f.Add(labelled32("REVEILLE"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if label, err := fatLabel(bytes.NewReader(b)); err == nil && len(label) > 11 {
			t.Errorf("label %q", label)
		}
	})
}

// blockDevices shows images as a kernel would show disks.
type blockDevices struct {
	t        *testing.T
	sys, dev string
}

func newBlockDevices(t *testing.T) blockDevices {
	return blockDevices{t, t.TempDir(), t.TempDir()}
}

func (b blockDevices) add(name, size string, image []byte) {
	b.t.Helper()
	if err := os.WriteFile(filepath.Join(b.dev, name), image, 0o600); err != nil {
		b.t.Fatal(err)
	}
	b.show(name, size)
}

func (b blockDevices) show(name, size string) {
	b.t.Helper()
	if err := os.MkdirAll(filepath.Join(b.sys, name), 0o700); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(b.sys, name, "size"), []byte(size+"\n"), 0o600); err != nil {
		b.t.Fatal(err)
	}
}

func (b blockDevices) wait(limit time.Duration) (string, error) {
	ctx, cancel := context.WithTimeout(b.t.Context(), limit)
	defer cancel()
	return newScan(b.sys, b.dev).wait(ctx)
}

func TestScanFindsThePartition(t *testing.T) {
	b := newBlockDevices(t)
	b.add("vda", "2048", make([]byte, 4096))
	b.add("vda1", "2048", labelled("REVEILLE"))
	b.add("sr0", "0", labelled("REVEILLE")) // no medium
	if got, err := b.wait(10 * time.Second); err != nil || got != "vda1" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestScanSaysWhatItSaw(t *testing.T) {
	b := newBlockDevices(t)
	b.add("vda", "2048", make([]byte, 4096))
	b.add("vdb", "2048", labelled("EFI"))
	b.show("vdc", "2048") // no node in /dev
	_, err := b.wait(100 * time.Millisecond)
	if err == nil {
		t.Fatal("found one")
	}
	for _, want := range []string{"on 3 block devices (", "vda is not FAT", `vdb is labelled "EFI"`, "vdc: open "} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("want %q in %v", want, err)
		}
	}
}

func TestScanRefusesTwo(t *testing.T) {
	b := newBlockDevices(t)
	b.add("sda1", "2048", labelled("REVEILLE"))
	b.add("sdb", "2048", labelled("REVEILLE"))
	if _, err := b.wait(10 * time.Second); err == nil || !strings.Contains(err.Error(), "2 file systems are labelled REVEILLE (sda1, sdb)") {
		t.Errorf("got %v", err)
	}
}

// TestScanIsNotHeldByASickDisk has a disk whose open never returns, as a FIFO
// without a writer: the other one is found in time, try after try, and the
// sick one costs one thread.
func TestScanIsNotHeldByASickDisk(t *testing.T) {
	b := newBlockDevices(t)
	b.add("sda", "2048", labelled("REVEILLE"))
	sick := filepath.Join(b.dev, "sdb")
	if err := unix.Mkfifo(sick, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { // lets the probe end
		if w, err := os.OpenFile(sick, os.O_WRONLY|unix.O_NONBLOCK, 0); err == nil {
			w.Close()
		}
	})
	b.show("sdb", "2048")
	s := newScan(b.sys, b.dev)
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
		got, err := s.wait(ctx)
		cancel()
		if err != nil || got != "sda" {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	if _, seen, _ := s.once(t.Context()); !slices.Contains(seen, "sdb does not answer") {
		t.Errorf("said %q", seen)
	}
}

func TestScanWaitsForALateDisk(t *testing.T) {
	b := newBlockDevices(t)
	b.add("vda", "2048", make([]byte, 4096))
	s := newScan(b.sys, b.dev)
	if found, _, err := s.once(t.Context()); err != nil || len(found) > 0 {
		t.Fatalf("found %v, %v", found, err)
	}
	b.add("sda", "2048", labelled("REVEILLE"))
	if got, err := s.wait(t.Context()); err != nil || got != "sda" {
		t.Errorf("got %q, %v", got, err)
	}
}
