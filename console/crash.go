package console

import (
	"cmp"
	"fmt"
	"path"
	"strings"
	"time"
)

// CrashFacts is what init knows about a process that died.
type CrashFacts struct {
	Process     string        // "agent"
	Build       string        // build id
	Incarnation int           // 1 is the first run since boot
	Uptime      time.Duration // of the machine
	Ran         time.Duration // how long this incarnation lived
	Stage       string        // the boot stage it was in
	WaitStatus  string        // "exit status 2", "killed by SIGKILL"
	Cause       string        // why, if whoever watched it knows better than its own text; else empty
}

// CrashOrigin is the origin of crash records in the log; it has a byte bound
// of its own there, so that no other output evicts a crash.
const CrashOrigin = "crash"

// CrashReport is one crash, ready to show and to store.
type CrashReport struct {
	Facts   CrashFacts
	Reason  string   // the headline, or the wait status when there is none
	Frame   string   // first frame outside the runtime, "netcfg.Apply (netcfg/apply.go:41)"
	Summary []string // at most 2 KiB of ASCII, see maxReason
	Trace   string   // all that was kept of what it wrote, byte for byte
	Written int64    // bytes that it wrote; more than len(Trace) if some were not kept
}

// Bounds in bytes of what a summary quotes, each of its four lines within
// their sum: a summary stays below 2 KiB.
const (
	maxReason = 300
	maxFrame  = 150
)

// Summarise makes a crash of what a process left behind.
func Summarise(f CrashFacts, text CrashText) CrashReport {
	c := CrashReport{Facts: f, Trace: text.String(), Written: text.Written}
	c.Reason = cmp.Or(f.Cause, reasonOf(text.lines()), f.WaitStatus)
	c.Frame = topFrame(text.lines())
	c.Summary = c.summary()
	return c
}

func (c *CrashReport) summary() []string {
	f := c.Facts
	lines := []string{fmt.Sprintf("%s crashed: %s", f.Process, c.Reason)}
	if c.Frame != "" {
		lines = append(lines, "at "+c.Frame)
	}
	lines = append(lines,
		fmt.Sprintf("build %s, incarnation %d, stage %s", f.Build, f.Incarnation, f.Stage),
		fmt.Sprintf("uptime %.3fs, ran %.3fs, %s, wrote %s",
			f.Uptime.Seconds(), f.Ran.Seconds(), f.WaitStatus, byteSize(c.Written)))
	var out []string
	for i, line := range lines {
		line, _ = truncate(ascii(Clean(oneLine(line))), maxReason+maxFrame)
		if i > 0 {
			line = indent + line
		}
		out = append(out, wrap(line)...)
	}
	return out
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }

// Publish puts the summary and then the trace into the log, with nothing in
// between: consoles show them in that order, the trace in one piece.
func (c *CrashReport) Publish(log *Log) {
	entries := []Entry{{Origin: CrashOrigin, Level: Crash, Text: strings.Join(c.Summary, "\n")}}
	if c.Trace != "" {
		entries = append(entries, Entry{
			Origin: CrashOrigin, Level: Crash, Cut: max(c.Written-int64(len(c.Trace)), 0),
			Text: fmt.Sprintf("trace of %s, incarnation %d, %s:\n%s\n-- end of trace --",
				c.Facts.Process, c.Facts.Incarnation, byteSize(c.Written), strings.TrimRight(c.Trace, "\n")),
		})
	}
	log.Add(entries...)
}

// headlines begin a line that says why a Go process dies. Stronger ones come
// first: "runtime: goroutine stack exceeds" precedes "fatal error: stack
// overflow", which is the better reason.
var headlines = []string{"panic: ", "fatal error: ", "unexpected fault address", "SIG", "[signal SIG", "runtime: "}

// lastStrong is the rank of the last headline that ends a process by itself.
const lastStrong = 4

// headline is the rank of a line as a reason, from 1 (best); 0: it is none.
func headline(line string) int {
	for i, h := range headlines {
		if !strings.HasPrefix(line, h) {
			continue
		}
		if h == "SIG" && !isSignalLine(line) {
			continue
		}
		return i + 1
	}
	return 0
}

// isSignalLine recognises "SIGQUIT: quit".
func isSignalLine(line string) bool {
	name, _, ok := strings.Cut(line, ": ")
	return ok && len(name) < 12 && strings.ToUpper(name) == name && !strings.Contains(name, " ")
}

// reasonLines is how far behind the first headline a better one may stand;
// a nested panic or a runtime hint takes a few lines.
const reasonLines = 20

// reasonOf finds the best headline, with the signal line that explains it.
func reasonOf(lines []string) string {
	best, reason, signal, left := 0, "", "", 0
	for _, line := range lines {
		rank := headline(line)
		if rank > 0 && left == 0 {
			left = reasonLines
		}
		if left == 0 {
			continue
		}
		if strings.HasPrefix(line, "[signal SIG") {
			signal = " " + line
		} else if rank > 0 && (best == 0 || rank < best) {
			best, reason = rank, line
		}
		if left--; left == 0 || strings.HasPrefix(line, "goroutine ") {
			break
		}
	}
	reason, _ = truncate(strings.TrimSpace(reason+signal), maxReason)
	return Clean(reason)
}

// topFrame is the first frame that is no part of the runtime, in the first
// goroutine that has one: that is the goroutine that died.
func topFrame(lines []string) string {
	in := false
	for i, line := range lines {
		switch {
		case strings.HasPrefix(line, "goroutine "), strings.HasPrefix(line, "runtime stack:"):
			in = true
		case line == "", strings.HasPrefix(line, "created by "):
			in = line != "" && in
		case in && isFrame(lines, i) && !isRuntime(line):
			return frameText(line, lines[i+1])
		}
	}
	return ""
}

// isFrame tells whether a line is a function with its place on the next.
func isFrame(lines []string, i int) bool {
	return strings.HasSuffix(lines[i], ")") && i+1 < len(lines) && strings.HasPrefix(lines[i+1], "\t") &&
		(strings.Contains(lines[i+1], ".go:") || strings.Contains(lines[i+1], ".s:"))
}

func isRuntime(line string) bool {
	for _, p := range []string{"runtime.", "runtime/", "internal/runtime/", "internal/sync.", "sync.(*WaitGroup).Go", "panic(", "sync.fatal(", "sync.throw("} {
		if strings.HasPrefix(line, p) {
			return true
		}
	}
	return false
}

// frameText is "reveille/netcfg.Apply (netcfg/apply.go:41)": no arguments,
// and of the path only what tells files apart.
func frameText(function, place string) string {
	if i := strings.LastIndexByte(function, '('); i > 0 {
		function = function[:i]
	}
	place, _, _ = strings.Cut(strings.TrimSpace(place), " +0x")
	dir, file := path.Split(place)
	s, _ := truncate(fmt.Sprintf("%s (%s)", function, path.Join(path.Base(dir), file)), maxFrame)
	return Clean(s)
}
