//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"reveille/images/bench"
	"reveille/images/rack"
)

// TestStatusScreen boots a node with a display, whose agent dies once: a
// photograph of the screen must tell the stages, the addresses, the crash and
// what was wrong. Why a machine stops is photographed in TestStopOfASickMachine: a
// healthy node is off 0.2 s after it has said so.
func TestStatusScreen(t *testing.T) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{
		Name: "n1", TPM: true, Display: true, Append: "console=tty0 reveille.fault=agent-panic@network-half",
	})
	boot(t, ctx, n, "")
	see(t, ctx, n, 0, `tty0 shows the status screen`)
	awaitScreen(t, ctx, n,
		"reveille ", " UTC  up ",
		"network     done", "steady      done", "addresses  10.0.2.15 fd00:5::15", "cluster    member of", "consoles   ttyS0 ",
		"waiting for nothing",
		"agent crashed: panic: fault: agent-panic", "incarnation 1, stage network",
		"E agent 1 ended: exit status 2",
	)
}

// awaitScreen wants all texts on the screen at once, soon, and readable.
func awaitScreen(t *testing.T, ctx context.Context, n *rack.Node, texts ...string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, bootTime)
	defer cancel()
	for {
		rows, err := look(ctx, n, texts)
		if err == nil {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%v; the screen:\n%s", err, strings.Join(rows, "\n"))
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// look is the screen, and no error if it has all texts, did not change while it
// was photographed, and the photograph shows it.
func look(ctx context.Context, n *rack.Node, texts []string) (rows []string, err error) {
	title := " " + n.Name + "  reveille "
	if rows, err = n.ScreenText(ctx, title); err != nil {
		return nil, err
	}
	all := strings.Join(rows, "\n")
	for _, text := range texts {
		if !strings.Contains(all, text) {
			return rows, fmt.Errorf("no %q", text)
		}
	}
	shot, err := n.Screenshot(ctx)
	if err != nil {
		return rows, err
	}
	after, err := n.ScreenText(ctx, title)
	if err != nil {
		return rows, err
	}
	if !slices.Equal(rows, after) {
		return after, errors.New("the screen changed")
	}
	return rows, legible(shot, rows)
}

// legible wants each character to look like itself wherever it stands, and like
// no other: then whoever knows the font can read the picture.
func legible(shot bench.Screenshot, rows []string) error {
	width, height := shot.Width/len(rows[0]), shot.Height/len(rows)
	looks, means := map[byte]string{}, map[string]byte{}
	for y, row := range rows {
		for x := range len(row) {
			if x == 0 && y == len(rows)-1 {
				continue // the cursor blinks there
			}
			c, glyph := row[x], shape(shot, x*width, y*height, width, height)
			if was, ok := looks[c]; ok && was != glyph {
				return fmt.Errorf("row %d, column %d: this %q looks different", y, x, c)
			}
			if was, ok := means[glyph]; ok && was != c {
				return fmt.Errorf("row %d, column %d: %q looks like %q", y, x, c, was)
			}
			looks[c], means[glyph] = glyph, c
		}
	}
	return nil
}

// shape is a cell of the picture without its colours: which pixels are as the
// first, its corner, which no ASCII glyph touches.
func shape(shot bench.Screenshot, x, y, width, height int) string {
	at := func(x, y int) string {
		i := 3 * (y*shot.Width + x)
		return string(shot.RGB[i : i+3])
	}
	var s strings.Builder
	for dy := range height {
		for dx := range width {
			if at(x+dx, y+dy) == at(x, y) {
				s.WriteByte('.')
			} else {
				s.WriteByte('#')
			}
		}
	}
	return s.String()
}
