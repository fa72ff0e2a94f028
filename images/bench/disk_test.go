package bench

import (
	"bytes"
	"path/filepath"
	"testing"
)

func TestDisk(t *testing.T) {
	image := filepath.Join(t.TempDir(), "disk")
	big := bytes.Repeat([]byte("0123456789abcde\n"), 20000) // over many clusters
	err := MakeDisk(image, Label, map[string][]byte{"reveille/node.yaml": []byte("version: 1\n"), "big": big})
	if err != nil {
		t.Fatal(err)
	}
	// Shorter than before, longer than before, in a directory that exists, in one
	// that does not.
	files := map[string][]byte{
		"big": []byte("x"), "reveille/node.yaml": big, "reveille/more": []byte("y"), "a/b/c": []byte("z"),
	}
	for name, content := range files {
		if err := WriteDisk(image, name, content); err != nil {
			t.Fatal(err)
		}
	}
	for name, want := range files {
		if got, err := ReadDisk(image, name); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s: %d bytes, want %d, %v", name, len(got), len(want), err)
		}
	}
	if _, err := ReadDisk(image, "nonsense"); err == nil {
		t.Error("read a file that is not there")
	}
}

func TestFillDisk(t *testing.T) {
	image := filepath.Join(t.TempDir(), "disk")
	if err := MakeDisk(image, Label, map[string][]byte{"old": []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if err := FillDisk(image, 256<<10); err != nil {
		t.Fatal(err)
	}
	if err := WriteDisk(image, "fits", make([]byte, 200<<10)); err != nil {
		t.Error(err)
	}
	if err := WriteDisk(image, "does not", make([]byte, 100<<10)); err == nil {
		t.Error("the disk has room")
	}
	if got, err := ReadDisk(image, "old"); string(got) != "x" || err != nil {
		t.Errorf("old: %q, %v", got, err)
	}
}
