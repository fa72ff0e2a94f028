package pid1

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync/atomic"
	"unsafe"

	"golang.org/x/sys/unix"

	"reveille/boot/crash"
	"reveille/console"
)

const (
	// lastLogSize is the memory for lines, bytes: what a crash record takes.
	lastLogSize = tailBytes
	// lastLogHead stands before them: how many bytes were ever written, 8 bytes.
	lastLogHead = 8
	// maxLastText bounds a record's text there: a long one is not to push out all
	// that led to it.
	maxLastText = 1 << 10
)

// lastLog is the end of init's log in memory that outlives init: a ring of
// lines. To write it is to copy, so nothing is left to do when init dies, of
// whatever it dies.
type lastLog struct {
	memory []byte
	line   []byte // the present record's, kept for its memory
}

// mapLastLog maps the file that the warden made (newMemory), for life.
func mapLastLog(f *os.File) (*lastLog, error) {
	if err := f.Truncate(lastLogHead + lastLogSize); err != nil {
		return nil, fmt.Errorf("make room for the last log: %w", err)
	}
	memory, err := unix.Mmap(int(f.Fd()), 0, lastLogHead+lastLogSize, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, fmt.Errorf("map the last log: %w", err)
	}
	return &lastLog{memory: memory}, nil
}

// written is the head of the memory, which begins a page.
func (l *lastLog) written() *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&l.memory[0])) }

// add copies a record, and then says so. One caller at a time: see
// console.Log.Tee.
func (l *lastLog) add(r console.Record) {
	if r.Origin == console.CrashOrigin {
		return
	}
	if len(r.Text) > maxLastText {
		r.Text = strings.ToValidUTF8(r.Text[:maxLastText], "")
	}
	l.line = appendLine(l.line[:0], r)
	ring, at := l.memory[lastLogHead:], l.written().Load()
	for rest := l.line; len(rest) > 0; {
		n := copy(ring[at%lastLogSize:], rest)
		rest, at = rest[n:], at+uint64(n)
	}
	l.written().Store(at)
}

// readLastLog is what init left in the file: whole lines, without secrets. A
// record that it was writing when it died may stand where the oldest did.
func readLastLog(f *os.File) []byte {
	l := lastLog{memory: make([]byte, lastLogHead+lastLogSize)}
	if _, err := f.ReadAt(l.memory, 0); err != nil && !errors.Is(err, io.EOF) {
		return nil // cannot be: it is memory
	}
	ring, end := l.memory[lastLogHead:], l.written().Load()
	if end <= lastLogSize {
		return crash.Redact(ring[:end])
	}
	const unsure = 2 * maxLastText // no line is as long
	at := end % lastLogSize
	lines := append(bytes.Clone(ring[at:]), ring[:at]...)[unsure:]
	_, lines, _ = bytes.Cut(lines, []byte("\n"))
	return crash.Redact(lines)
}
