package pid1

import (
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"
)

// TestLogLimit: what is over the limit goes by whole lines, and is told of.
func TestLogLimit(t *testing.T) {
	now, dropped := time.Duration(0), uint64(0)
	limit := newLogLimit(20, 0, func() time.Duration { return now }, func(n uint64) { dropped += n })
	read := func(text string) string {
		out, err := io.ReadAll(&limitedReader{from: iotest.OneByteReader(strings.NewReader(text)), limit: limit})
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	if got := read("0123456789\n0123456789\n0123456789\n"); got != "0123456789\n012345678\n" {
		t.Errorf("kept %q", got)
	}
	now += tellEvery
	if got := read("well\nagain\n"); got != "well\nagain\n" {
		t.Errorf("kept %q", got)
	}
	if dropped != 13 {
		t.Errorf("told of %d bytes", dropped)
	}
}

// What a service says of its status is as limited as what it writes.
func TestStatusIsLimited(t *testing.T) {
	i := newInit(Options{})
	out := i.bounded("svc/x", 100, 0)
	for range 1000 {
		out.Status("busy, busy, busy")
	}
	if n := strings.Count(wholeLog(i), "status: busy"); n == 0 || n > 10 {
		t.Errorf("%d of 1000 are in the log", n)
	}
}
