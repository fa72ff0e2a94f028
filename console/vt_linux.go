package console

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// StatusVT is the virtual terminal of the status screen: the one that a
// machine starts with. Lines for "tty0", whichever is in front, would be
// written over it, and so would those for its own name.
const StatusVT = "tty1"

// OwnedByStatus tells whether a console's lines would be written over the
// status screen.
func OwnedByStatus(s Spec) bool { return s.Name == "tty0" || s.Name == StatusVT }

// VT is a virtual terminal as memory: its cells, which the kernel puts on
// whatever display there is (vcs(4)). That way a screen is drawn in one piece,
// with no terminal in between that could echo a keyboard, wrap, scroll, or be
// stopped by XOFF and Scroll Lock.
type VT struct{ path string }

// OpenVT finds the status screen below dev ("/dev"). The error is
// fs.ErrNotExist if the kernel has no virtual terminals.
func OpenVT(dev string) (*VT, error) {
	v := &VT{filepath.Join(dev, "vcsa1")}
	if _, err := os.Stat(v.path); err != nil {
		return nil, fmt.Errorf("find status screen: %w", err)
	}
	return v, nil
}

// vcsaHeader is rows, columns, cursor column, cursor row: a byte each.
const vcsaHeader = 4

// Draw shows a view, unless that is what stands there already: what a kernel in
// need wrote over it is repaired. It takes the kernel's console lock, which printk may hold
// for as long as a slow serial port needs: it may block.
func (v *VT) Draw(view View) error {
	f, err := os.OpenFile(v.path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("open status screen: %w", err)
	}
	defer f.Close()
	var header [vcsaHeader]byte
	if _, err := io.ReadFull(f, header[:]); err != nil {
		return fmt.Errorf("read size of status screen: %w", err)
	}
	rows, cols := int(header[0]), int(header[1])
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Errorf("read size of status screen: %w", err)
	}
	if size != int64(vcsaHeader+2*rows*cols) {
		return errors.New("draw status screen: it is larger than 255 rows or columns")
	}
	want, have := cells(view.Render(cols, rows), rows, cols), make([]byte, size)
	if _, err := f.ReadAt(have, 0); err != nil {
		return fmt.Errorf("read status screen: %w", err)
	}
	if bytes.Equal(want, have) {
		return nil
	}
	if _, err := f.WriteAt(want, 0); err != nil {
		return fmt.Errorf("draw status screen: %w", err)
	}
	return nil
}

// attributes are the colours of a style, background and foreground: text must
// be readable in a photograph of a screen.
var attributes = map[Style]byte{Plain: 0x07, Title: 0x1f, Warning: 0x0e, Alarm: 0x0c}

// cells are lines as vcsa takes them: the header, then a character and its
// attribute each. The cursor goes into the last row's margin, where a kernel
// panic would go on without covering much.
func cells(lines []Line, rows, cols int) []byte {
	out := make([]byte, 0, vcsaHeader+2*rows*cols)
	out = append(out, byte(rows), byte(cols), 0, byte(rows-1))
	for _, l := range lines {
		for i := range len(l.Text) {
			out = append(out, l.Text[i], attributes[l.Style])
		}
	}
	return out
}
