package console

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// newVT is a status screen whose device is a file: the size, and cells.
func newVT(t *testing.T, rows, cols byte) (v *VT, device string) {
	t.Helper()
	dev := t.TempDir()
	device = filepath.Join(dev, "vcsa1")
	if err := os.WriteFile(device, append([]byte{rows, cols, 3, 4}, make([]byte, 2*int(rows)*int(cols))...), 0o600); err != nil {
		t.Fatal(err)
	}
	v, err := OpenVT(dev)
	if err != nil {
		t.Fatal(err)
	}
	return v, device
}

func TestDraw(t *testing.T) {
	v, device := newVT(t, 25, 80)
	for range 2 { // the second time nothing is to be written
		if err := v.Draw(View{Name: "n1", Waiting: "x"}); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(device)
		if err != nil {
			t.Fatal(err)
		}
		if len(b) != vcsaHeader+2*25*80 || string(b[:vcsaHeader]) != "\x19\x50\x00\x18" {
			t.Errorf("%d bytes, header %v", len(b), b[:vcsaHeader])
		}
		var text strings.Builder
		for i := vcsaHeader; i < len(b); i += 2 {
			text.WriteByte(b[i])
		}
		if !strings.HasPrefix(text.String(), " n1  reveille") || !strings.Contains(text.String(), " waiting: x ") {
			t.Errorf("%q", text.String())
		}
		if err := os.Chmod(device, 0o400); err != nil {
			t.Fatal(err)
		}
	}
}

// TestDrawRepairs overwrites a cell, as a kernel in need would.
func TestDrawRepairs(t *testing.T) {
	v, device := newVT(t, 25, 80)
	view := View{Name: "n1"}
	if err := v.Draw(view); err != nil {
		t.Fatal(err)
	}
	good, _ := os.ReadFile(device)
	bad := []byte(string(good))
	copy(bad[1000:], "Oops")
	if err := os.WriteFile(device, bad, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := v.Draw(view); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(device); string(b) != string(good) {
		t.Error("not repaired")
	}
}

func TestDrawFails(t *testing.T) {
	if _, err := OpenVT(t.TempDir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no device: %v", err)
	}
	v, device := newVT(t, 255, 255)
	if err := os.Truncate(device, 1<<20); err != nil { // a screen of 300 columns says 255
		t.Fatal(err)
	}
	if err := v.Draw(View{}); err == nil {
		t.Error("drawn on a screen whose size does not fit")
	}
	if err := os.Truncate(device, 2); err != nil {
		t.Fatal(err)
	}
	if err := v.Draw(View{}); err == nil {
		t.Error("drawn on a device that says no size")
	}
}

func TestStatusScreen(t *testing.T) {
	for cmdline, want := range map[string]bool{
		"": true, "console=ttyS0 reveille.screen": true, "reveille.screen=off": false, "reveille.screen=0 quiet": false,
		"reveille.screen=off reveille.screen=on": true, "-- reveille.screen=off": true,
	} {
		if got := StatusScreen(cmdline); got != want {
			t.Errorf("%q: %t", cmdline, got)
		}
	}
	if !OwnedByStatus(Spec{Name: "tty0"}) || !OwnedByStatus(Spec{Name: "tty1"}) || OwnedByStatus(Spec{Name: "tty2"}) || OwnedByStatus(Spec{Name: "ttyS0"}) {
		t.Error("owns another console than the one in front")
	}
}
