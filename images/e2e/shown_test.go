//go:build e2e

package e2e

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"reveille/images/bench"
)

const (
	// soon is within what a console must show why a process died.
	soon = 3 * time.Second
	// A trace is cut at what a console takes in ten seconds, and never below
	// leastTrace nor above mostTrace; its last line may not fit.
	leastTrace = 2048 - 480
	mostTrace  = 32 << 10
	// holdsFor is the most that it may take: those ten seconds, of a rate that may
	// be believed to be half as high again, and a machine that is late.
	holdsFor = 20 * time.Second
)

// traceEnd is the line behind a trace: all of it was shown, or not.
const traceEnd = `\n-- (end of trace|\S+ \S+ of trace not shown; all that was kept is in the log) --\r\n`

// crashShown is a crash as it stands on a console.
type crashShown struct {
	summaryEnd int    // where the text has the whole summary
	end        int    // where it has the whole trace, if there is one
	trace      string // without its head and end lines
	all        bool   // the trace is not cut
}

var traceHead = regexp.MustCompile(`^\[ *[0-9.]+\] crash         C trace of \S+, incarnation \d+, [^\r\n]*:\r\n`)

// findCrash looks for one crash on a console: its summary, line for line, with
// the trace right behind it.
func findCrash(text string, summary []string) (c crashShown, problem string) {
	if problem := inPieces(text); problem != "" {
		return c, problem
	}
	want := regexp.MustCompile(`(?m)^\[ *[0-9.]+\] crash         C ` + regexp.QuoteMeta(strings.Join(summary, "\r\n")+"\r\n"))
	found := want.FindAllStringIndex(text, -1)
	if len(found) != 1 {
		return c, fmt.Sprintf("the summary is there %d times", len(found))
	}
	c.summaryEnd = found[0][1]
	rest := text[c.summaryEnd:]
	head := traceHead.FindString(rest)
	if head == "" {
		return c, ""
	}
	rest = rest[len(head)-1:] // with a line end, if the trace has no line
	end := regexp.MustCompile(traceEnd).FindStringSubmatchIndex(rest)
	if end == nil {
		return c, "the trace has no end"
	}
	c.trace = strings.ReplaceAll(strings.TrimSuffix(rest[1:max(end[0], 1)], "\r"), "\r\n", "\n")
	c.all = strings.HasPrefix(rest[end[2]:], "end of trace")
	c.end = len(text) - len(rest) + end[1]
	return c, ""
}

// differs says how the trace on a console differs from that on record: it must
// be its beginning, and as much of it as a console gets.
func (c crashShown) differs(record string) string {
	record = strings.TrimRight(record, "\n")
	switch {
	case record == c.trace:
		return ""
	case !strings.HasPrefix(record, c.trace):
		return fmt.Sprintf("the trace is another than on record:\n%s\nthe record:\n%s", c.trace, record)
	case c.all:
		return fmt.Sprintf("the trace ends after %d of %d bytes", len(c.trace), len(record))
	case !c.all && (len(c.trace) < leastTrace || len(c.trace) > mostTrace):
		return fmt.Sprintf("the trace is cut after %d bytes", len(c.trace))
	}
	return ""
}

// guestClock is the host time at which the guest's uptime was zero.
//
// No line can be on the wire before the time that it bears, so each gives an
// upper bound; of the dozens of a boot the best is some 10 ms off, one line's
// way out. A guest's clock that runs fast or slow lowers the bound, and makes
// what is measured against it seem later than it was.
type guestClock time.Time

func clockOf(chunks []bench.Chunk) guestClock {
	var best time.Time
	text := textOf(chunks)
	for _, m := range lineStamp.FindAllStringSubmatchIndex(text, -1) {
		at, err := strconv.ParseFloat(text[m[2]:m[3]], 64)
		if err != nil {
			continue // the pattern takes what is no number
		}
		zero := whenRead(chunks, m[1]).Add(-time.Duration(at * float64(time.Second)))
		if best.IsZero() || zero.Before(best) {
			best = zero
		}
	}
	return guestClock(best)
}

// uptime is the guest's when that much of a console had been read, in seconds.
func (c guestClock) uptime(chunks []bench.Chunk, end int) float64 {
	return whenRead(chunks, end).Sub(time.Time(c)).Seconds()
}

var lineStamp = regexp.MustCompile(`(?m)^\[ *([0-9]+\.[0-9]{3})\] `)

// whenRead is the host time at which so many bytes had been read.
func whenRead(chunks []bench.Chunk, end int) time.Time {
	read := 0
	for _, c := range chunks {
		if read += len(c.Data); read >= end {
			return c.At
		}
	}
	return time.Time{} // cannot be: the caller has read that much
}

func textOf(chunks []bench.Chunk) string {
	var text strings.Builder
	for _, c := range chunks {
		text.Write(c.Data)
	}
	return text.String()
}

var injecting = regexp.MustCompile(`(?m)^\[ *([0-9.]+)\] fault +W injecting `)

// struckAt is the guest's uptime at which a fault struck, by the log in a
// record. A fault before the agent can log has none.
func struckAt(log string) (at float64, known bool) {
	m := injecting.FindStringSubmatch(log)
	if m == nil {
		return 0, false
	}
	at, err := strconv.ParseFloat(m[1], 64)
	return at, err == nil
}

var (
	crashLine = regexp.MustCompile(`^\[ *[0-9.]+\] (crash|warden) +C `)
	newLine   = regexp.MustCompile(`^\[ *[0-9.]+\] \S+ +[DISWEC] `)
	// What only a Go trace has: a goroutine's head, a place, who made it.
	traceLine = regexp.MustCompile(`^(goroutine \d+ |\t\S+\.(go|s):\d+|created by )`)
)

// inPieces says how a console's text breaks a crash up, empty if it does not.
// The trace is printed as it was written, without a time: so none of its lines
// may follow a line of anybody else.
func inPieces(text string) string {
	runs, inside := 0, false
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimRight(line, "\r")
		switch {
		case crashLine.MatchString(line):
			if !inside {
				runs++
			}
			inside = true
		case newLine.MatchString(line):
			inside = false
		case !inside && traceLine.MatchString(line):
			return "a line of the trace stands apart: " + line
		}
	}
	if runs != 1 {
		return fmt.Sprintf("the crash stands in %d pieces", runs)
	}
	return ""
}

// TestInPieces holds the check itself: it must see what it is there for.
func TestInPieces(t *testing.T) {
	const before, summary = "[    1.000] mounts        S start\r\n", "[    2.000] crash         C agent crashed: panic: x\r\n"
	const first, second = "goroutine 1 [running]:\r\nmain.f()\r\n\t/a/b.go:1 +0x1\r\n", "goroutine 2 [select]:\r\nmain.g()\r\n\t/a/c.go:2\r\n"
	const foreign = "[    2.001] netcfg        I bond0 up\r\n"
	for _, c := range []struct {
		name, text string
		whole      bool
	}{
		{"whole", before + summary + first + second + foreign, true},
		{"foreign line in the trace", before + summary + first + foreign + second, false},
		{"foreign line before the trace", before + summary + foreign + first + second, false},
		{"twice", summary + first + foreign + summary + first, false},
		{"none", before + foreign, false},
	} {
		if problem := inPieces(c.text); (problem == "") != c.whole {
			t.Errorf("%s: %q", c.name, problem)
		}
	}
}

// TestFindCrash holds findCrash and differs in the same way.
func TestFindCrash(t *testing.T) {
	const before, stamp = "[    1.000] mounts        S start\r\n", "[    2.000] crash         C "
	const summary = stamp + "agent crashed: panic: x\r\n  build b\r\n"
	const head = stamp + "trace of agent, incarnation 1, 40 bytes:\r\n"
	const first, second = "goroutine 1 [running]:\r\nmain.f()\r\n", "\t/a/b.go:1 +0x1\r\n"
	record := strings.ReplaceAll(first+second, "\r\n", "\n")
	long := strings.Repeat("goroutine 1\r\n", 200)
	for _, c := range []struct {
		name, text, record string
		whole              bool
	}{
		{"whole", summary + head + first + second + "-- end of trace --\r\n", record, true},
		{"no trace", summary, "", true},
		{"cut by its budget", summary + head + long + "-- 1.2 MiB of trace not shown; all that was kept is in the log --\r\n",
			strings.ReplaceAll(long, "\r", "") + "more\n", true},
		{"cut too soon", summary + head + first + "-- 17 bytes of trace not shown; all that was kept is in the log --\r\n", record, false},
		{"ends too soon", summary + head + first + "-- end of trace --\r\n", record, false},
		{"no end", summary + head + first + second, record, false},
		{"a hole in it", summary + head + second + "-- end of trace --\r\n", record, false},
		{"half a summary", stamp + "agent crashed: panic: x\r\n", "", false},
		{"two summaries", summary + summary, "", false},
	} {
		got, problem := findCrash(before+c.text, []string{"agent crashed: panic: x", "  build b"})
		if problem == "" {
			problem = got.differs(c.record)
		}
		if c.whole && got.trace != "" && !regexp.MustCompile(traceEnd+`$`).MatchString(before+c.text[:got.end-len(before)]) {
			t.Errorf("%s: the trace does not end at byte %d", c.name, got.end)
		}
		if (problem == "") != c.whole {
			t.Errorf("%s: %q", c.name, problem)
		}
	}
}

// TestGuestClock: the line that took the shortest way sets it.
func TestGuestClock(t *testing.T) {
	start := time.Unix(1000, 0)
	chunks := []bench.Chunk{
		{At: start.Add(3 * time.Second), Data: []byte("[    1.500] a ")}, // 1.5 s on its way
		{At: start.Add(4010 * time.Millisecond), Data: []byte("b\r\n[    4.000] c")},
	}
	if zero := time.Time(clockOf(chunks)); zero.Sub(start) != 10*time.Millisecond {
		t.Errorf("zero is at %s", zero.Sub(start))
	}
	if up := clockOf(chunks).uptime(chunks, 5); up != 2.99 {
		t.Errorf("uptime %v", up)
	}
}
