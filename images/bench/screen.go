package bench

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
)

// Screenshot is what the display shows, pixel by pixel: 3 bytes each, red,
// green, blue, row by row.
type Screenshot struct {
	Width, Height int
	RGB           []byte
}

// Screenshot photographs the display; a node has one with Config.Display.
func (n *Node) Screenshot(ctx context.Context) (Screenshot, error) {
	path := filepath.Join(n.dir, "screen.ppm")
	defer os.Remove(path)
	if err := n.monitor.do(ctx, "screendump", map[string]any{"filename": path}); err != nil {
		return Screenshot{}, n.wrap("photograph the display", err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return Screenshot{}, n.wrap("photograph the display", err)
	}
	s, err := parsePPM(b)
	if err != nil {
		return s, n.wrap("photograph the display", err)
	}
	return s, nil
}

// The text memory of a VGA, which a kernel without a driver for the display
// writes: 80x25 cells of a character and a colour each, somewhere in 32 KiB.
const (
	textMemory     = 0xb8000
	textMemorySize = 32 << 10
	textCols       = 80
	textRows       = 25
)

// ScreenText is what the display shows, in text mode: 25 rows of 80. The first
// begins with title: the hardware alone knows where in its memory it begins.
func (n *Node) ScreenText(ctx context.Context, title string) ([]string, error) {
	path := filepath.Join(n.dir, "screen.text")
	defer os.Remove(path)
	err := n.monitor.do(ctx, "pmemsave", map[string]any{"val": textMemory, "size": textMemorySize, "filename": path})
	if err != nil {
		return nil, n.wrap("read the display", err)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, n.wrap("read the display", err)
	}
	rows := textAt(b, title)
	if rows == nil {
		return nil, n.wrap("read the display", fmt.Errorf("no row begins with %q", title))
	}
	return rows, nil
}

// textAt finds the screen that begins with title in text memory.
func textAt(memory []byte, title string) (rows []string) {
	const row = 2 * textCols
	for at := 0; at+textRows*row <= len(memory); at += row {
		rows = rows[:0]
		for r := range textRows {
			var text []byte
			for c := range textCols {
				text = append(text, memory[at+r*row+2*c])
			}
			rows = append(rows, string(text))
		}
		if strings.HasPrefix(rows[0], title) {
			return rows
		}
	}
	return nil
}

// maxSide bounds a side of a picture, pixels.
const maxSide = 8192

// parsePPM reads a binary portable pixmap of 8 bits a colour (netpbm, "P6").
func parsePPM(b []byte) (Screenshot, error) {
	var s Screenshot
	var depth int
	r := bufio.NewReader(bytes.NewReader(b))
	if _, err := fmt.Fscanf(r, "P6\n%d %d\n%d\n", &s.Width, &s.Height, &depth); err != nil {
		return s, fmt.Errorf("read pixmap: %w", err)
	}
	if s.Width < 1 || s.Height < 1 || s.Width > maxSide || s.Height > maxSide || depth != 255 {
		return s, errors.New("read pixmap: of a size or depth that no display has")
	}
	s.RGB = make([]byte, 3*s.Width*s.Height)
	if _, err := io.ReadFull(r, s.RGB); err != nil {
		return s, fmt.Errorf("read pixmap: %w", err)
	}
	return s, nil
}
