package bench

import (
	"bytes"
	"testing"
)

func TestParsePPM(t *testing.T) {
	s, err := parsePPM([]byte("P6\n2 1\n255\n\x01\x02\x03\n\x00\xff"))
	if err != nil || s.Width != 2 || s.Height != 1 || !bytes.Equal(s.RGB, []byte("\x01\x02\x03\n\x00\xff")) {
		t.Errorf("%+v, %v", s, err)
	}
	if s, err := parsePPM([]byte("P6\n1 1\n255\n \n ")); err != nil || string(s.RGB) != " \n " {
		t.Errorf("pixels that look like space: %+v, %v", s, err)
	}
	for _, bad := range []string{"", "P5\n1 1\n255\nx", "P6\n1 1\n65535\nxxxxxx", "P6\n2 1\n255\nxxx", "P6\n-1 1\n255\n", "P6\n99999999 99999999\n255\n"} {
		if s, err := parsePPM([]byte(bad)); err == nil {
			t.Errorf("%q: %+v", bad, s)
		}
	}
}

func FuzzParsePPM(f *testing.F) {
	f.Add([]byte("P6\n2 1\n255\n\x01\x02\x03\n\x00\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if s, err := parsePPM(b); err == nil && len(s.RGB) != 3*s.Width*s.Height {
			t.Errorf("%dx%d with %d bytes", s.Width, s.Height, len(s.RGB))
		}
	})
}

// TestTextAt finds the screen where the hardware has scrolled to.
func TestTextAt(t *testing.T) {
	memory := bytes.Repeat([]byte{' ', 7}, textMemorySize/2)
	for i, c := range []byte(" n1  up") {
		memory[3*2*textCols+2*i] = c
	}
	rows := textAt(memory, " n1 ")
	if len(rows) != textRows || rows[0][:7] != " n1  up" || len(rows[24]) != textCols {
		t.Errorf("%q", rows)
	}
	if textAt(memory, " n2 ") != nil {
		t.Error("found what is not there")
	}
}
