package console

import (
	"bytes"
	"fmt"
	"strings"
	"sync"
)

// Bounds of what is kept of a crash, in bytes. Go prints the goroutine that
// died first, so the head matters most; the tail holds exit messages.
const (
	DefaultCrashHead = 96 << 10
	DefaultCrashTail = 24 << 10
	// crashBefore is kept of what was written ahead of the headline: the
	// race detector and C libraries explain themselves there.
	crashBefore = 4 << 10
	// maxHeadline is enough of a line to know it by.
	maxHeadline = 64
)

// CrashText is what is kept of a process's fd 2.
type CrashText struct {
	Head    []byte // from shortly before the headline on
	Tail    []byte // the end, when the middle was not kept
	Written int64  // bytes of the trace, kept or not
}

// String is the kept text, with a line that says how much is missing.
func (t CrashText) String() string {
	missing := t.Written - int64(len(t.Head)) - int64(len(t.Tail))
	if missing <= 0 {
		return string(t.Head) + string(t.Tail)
	}
	head := string(t.Head)
	if !strings.HasSuffix(head, "\n") {
		head += "\n"
	}
	return fmt.Sprintf("%s-- %s of trace not kept --\n%s", head, byteSize(missing), t.Tail)
}

func (t CrashText) lines() []string { return strings.Split(t.String(), "\n") }

// CrashCollector keeps what a process writes to its fd 2, within a bound.
// Go writes a panic in some thirty fragments: what matters is lines, not
// writes. It is an io.Writer that never fails and never waits.
type CrashCollector struct {
	mu       sync.Mutex
	plain    *Splitter
	headMax  int
	tailMax  int
	line     []byte // the current line so far, up to maxHeadline
	judged   bool   // the current line was found to be a headline
	crashing bool   // a headline came: all from it on is trace
	fatal    bool   // one that ends a process
	head     []byte // kept from shortly before the headline on
	recent   []byte // the latest bytes that are not in head
	written  int64  // bytes from the start of head on, kept or not
}

// NewCrashCollector keeps up to head + tail bytes of a crash. Lines that
// belong to none go to plain as they are completed; plain may be nil.
func NewCrashCollector(head, tail int, plain func(line string)) *CrashCollector {
	if plain == nil {
		plain = func(string) {}
	}
	return &CrashCollector{plain: NewSplitter(plain), headMax: head, tailMax: tail}
}

// Write implements io.Writer.
func (c *CrashCollector) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for rest := p; len(rest) > 0; {
		n := bytes.IndexByte(rest, '\n') + 1
		if n == 0 {
			n = len(rest)
		}
		c.take(rest[:n])
		rest = rest[n:]
	}
	return len(p), nil
}

// take takes a piece of one line.
func (c *CrashCollector) take(b []byte) {
	c.line = append(c.line, b[:min(len(b), maxHeadline-len(c.line))]...)
	if !c.judged {
		c.judge()
	}
	c.keep(b)
	if !c.crashing {
		c.plain.Write(b)
	}
	if b[len(b)-1] == '\n' {
		c.line, c.judged = c.line[:0], false
	}
}

// judge starts the trace at a headline. A strong headline when the head is
// already full starts it again: the earlier one was not the end of the
// process. Within one trace headlines only stand in the first lines.
func (c *CrashCollector) judge() {
	rank := headline(string(bytes.TrimSuffix(c.line, []byte{'\n'})))
	if rank == 0 {
		return
	}
	c.judged = true
	c.fatal = c.fatal || rank <= lastStrong
	if c.crashing && (len(c.head) < c.headMax || rank > lastStrong) {
		return
	}
	before := lastBytes(c.recent, crashBefore)
	c.crashing = true
	c.head = append(c.head[:0], before...)
	c.written = int64(len(before))
	c.recent = c.recent[:0]
	c.plain.drop()
}

// keep adds bytes to the head, or to the latest ones.
func (c *CrashCollector) keep(b []byte) {
	c.written += int64(len(b))
	if c.crashing {
		n := min(len(b), c.headMax-len(c.head))
		c.head = append(c.head, b[:n]...)
		b = b[n:]
	}
	c.recent = append(c.recent, b...)
	// Twice the bound before moving down: each byte is copied once.
	if over := len(c.recent) - c.tailMax; over > c.tailMax {
		c.recent = append(c.recent[:0], c.recent[over:]...)
	}
}

// Fatal tells whether the process has said that it dies.
func (c *CrashCollector) Fatal() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.fatal
}

// Text is what was kept so far. Call it when the process is gone and its
// pipe is read to the end.
func (c *CrashCollector) Text() CrashText {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.plain.Flush()
	tail := c.recent[max(len(c.recent)-c.tailMax, 0):]
	return CrashText{Head: bytes.Clone(c.head), Tail: bytes.Clone(tail), Written: c.written}
}

// lastBytes is the end of b, at most n bytes, from the start of a line.
func lastBytes(b []byte, n int) []byte {
	if len(b) <= n {
		return b
	}
	b = b[len(b)-n:]
	return b[bytes.IndexByte(b, '\n')+1:]
}
