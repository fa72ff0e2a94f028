package console

import (
	"bytes"
	"errors"
	"io"
	"os"
	"time"
)

// maxStreamLine bounds one line of a process; a longer one continues in the
// next record behind contMark.
const (
	maxStreamLine = 4096
	contMark      = "... "
)

// Splitter turns the bytes of a pipe into lines. It is an io.Writer that
// never fails and holds at most one line.
type Splitter struct {
	emit func(line string)
	buf  []byte
	cont bool // buf continues a line that was too long
}

// NewSplitter calls emit for each line, without its end. Empty lines are
// left out.
func NewSplitter(emit func(line string)) *Splitter {
	return &Splitter{emit: emit, buf: make([]byte, 0, 256)}
}

// Write implements io.Writer.
func (s *Splitter) Write(p []byte) (int, error) {
	total := len(p)
	for len(p) > 0 {
		line, rest, ended := bytes.Cut(p, []byte{'\n'})
		n := min(len(line), maxStreamLine-len(s.buf))
		s.buf = append(s.buf, line[:n]...)
		switch {
		case n < len(line):
			s.split()
			p = p[n:]
		case ended:
			s.Flush()
			p = rest
		default:
			p = nil
		}
	}
	return total, nil
}

// Flush emits an unfinished line: the process ended or has paused.
func (s *Splitter) Flush() {
	s.out(s.buf)
	s.buf, s.cont = s.buf[:0], false
}

// drop forgets an unfinished line.
func (s *Splitter) drop() { s.buf, s.cont = s.buf[:0], false }

// split emits a part of a line that is too long, without cutting a rune.
func (s *Splitter) split() {
	part, cut := truncate(string(s.buf), maxStreamLine-4)
	s.out([]byte(part))
	s.buf = append(s.buf[:0], s.buf[len(s.buf)-cut:]...)
	s.cont = true
}

// out emits what a terminal would have left on the line: a progress bar
// overwrites itself with bare carriage returns, only its last state counts.
func (s *Splitter) out(line []byte) {
	line = bytes.TrimRight(line, "\r")
	if i := bytes.LastIndexByte(line, '\r'); i >= 0 {
		line = line[i+1:]
	}
	if len(line) == 0 {
		return
	}
	if s.cont {
		s.emit(contMark + string(line))
		return
	}
	s.emit(string(line))
}

// partialAfter is how long an unfinished line (a prompt) may wait for its end.
const partialAfter = time.Second

// Copy reads a process's output to its end and appends each line to the log
// at the given level; a line that begins with "<3>" has that syslog priority
// instead (the convention of sd-daemon(3)). The error is the reader's, nil
// at its end. To stop it early, close r.
func Copy(log *Log, r io.Reader, origin string, level Level) error {
	in := &intake{log: log}
	in.lines = NewSplitter(func(line string) {
		l, text := prefixLevel(line, level)
		in.add(Entry{Origin: origin, Level: l, Text: text})
	})
	defer in.flush()
	_, err := io.Copy(in, &pausing{Reader: r, pause: in.flush})
	return err
}

// maxBatch is how many lines a flood adds to the log under one lock: others
// wait some 30 us for it.
const maxBatch = 32

// intake adds lines to a log, those of one read together.
type intake struct {
	log   *Log
	lines *Splitter
	batch []Entry
}

func (in *intake) Write(p []byte) (int, error) {
	n, err := in.lines.Write(p)
	in.pour()
	return n, err
}

func (in *intake) add(e Entry) {
	if in.batch = append(in.batch, e); len(in.batch) == maxBatch {
		in.pour()
	}
}

func (in *intake) pour() {
	if len(in.batch) > 0 {
		in.log.Add(in.batch...)
	}
	clear(in.batch) // let go of the texts
	in.batch = in.batch[:0]
}

// flush adds an unfinished line as well.
func (in *intake) flush() {
	in.lines.Flush()
	in.pour()
}

// prefixLevel takes a "<N>" off a line.
func prefixLevel(line string, level Level) (Level, string) {
	if len(line) > 3 && line[0] == '<' && line[2] == '>' && line[1] >= '0' && line[1] <= '7' {
		return syslogLevel(int(line[1] - '0')), line[3:]
	}
	return level, line
}

// pausing calls pause when a reader that can time out had nothing for
// partialAfter.
type pausing struct {
	io.Reader
	pause func()
}

func (p *pausing) Read(b []byte) (int, error) {
	d, ok := p.Reader.(interface{ SetReadDeadline(time.Time) error })
	if !ok || d.SetReadDeadline(time.Now().Add(partialAfter)) != nil {
		return p.Reader.Read(b)
	}
	n, err := p.Reader.Read(b)
	if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
		return n, err
	}
	p.pause()
	d.SetReadDeadline(time.Time{})
	return p.Reader.Read(b)
}
