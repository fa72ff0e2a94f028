// Package crash keeps what a machine knows about its deaths until the cluster
// has it: crash records on the state partition, a journal that tells how the
// boot before this one ended, and what the kernel left in pstore.
//
// The parsers and the verdict are pure; Store and Journal touch a disk, and
// may wait for it for ever: whoever calls them does so in a goroutine of its
// own.
package crash

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// Kind says who died.
type Kind string

// The kinds of record.
const (
	Agent   Kind = "agent"
	Init    Kind = "init"
	Kernel  Kind = "kernel"
	Service Kind = "service"
)

// Record is one death. The texts are what was kept of them, byte for byte; all
// else is one-line text.
type Record struct {
	Kind        Kind          `json:"kind"`
	BootID      string        `json:"bootId,omitempty"` // empty: the kernel's dump does not tell
	Node        string        `json:"node,omitempty"`   // the host name at the time
	Build       string        `json:"build,omitempty"`
	Incarnation uint64        `json:"incarnation,omitempty"` // of the agent, 1 is the first of its boot
	Stage       string        `json:"stage,omitempty"`
	Uptime      time.Duration `json:"uptime,omitempty"` // of the machine
	Ran         time.Duration `json:"ran,omitempty"`    // of the process
	Time        time.Time     `json:"time,omitzero"`    // by the node's clock, which may be wrong
	WaitStatus  string        `json:"waitStatus,omitempty"`
	Reason      string        `json:"reason"`
	Frame       string        `json:"frame,omitempty"` // the top one
	Summary     []string      `json:"summary,omitempty"`
	Written     int64         `json:"written,omitempty"` // bytes of the trace before it was cut

	Trace []byte `json:"-"` // what the process wrote when it died
	Log   []byte `json:"-"` // the log's end at that time
	Dmesg []byte `json:"-"` // the kernel's, out of pstore; of a service: its core (PackCore)
}

// A record in bytes, all numbers little endian:
//
//	0   magic "RVCRASH\n"
//	8   version
//	12  length of meta, trace, log, dmesg: four numbers
//	28  zero
//	32  SHA-256 of bytes 0 to 32 and of all that follows
//	64  meta (JSON), trace, log, dmesg
//
// The texts are as they were, so that a disk taken out of a machine can be
// read with any tool.
const (
	magic      = "RVCRASH\n"
	version    = 1
	headerSize = 64
	sumAt      = 32
)

// MaxRecord bounds a record in bytes: a trace as long as init keeps one (120
// KiB), 64 KiB of log, and the end of a kernel's log. It is far below the 1.5
// MB that an etcd takes as a value. With the sector that orders it, it is 256
// KiB on a disk.
const MaxRecord = 256<<10 - orderSize

const (
	maxTrace = 128 << 10
	maxLog   = 64 << 10
	maxText  = 512 // one line of meta; init's are up to 450
	maxLines = 16  // of the summary; init's has 4, wrapped
)

// Errors of Parse. Blank is a place where no record was ever, or was removed.
var (
	ErrBlank   = errors.New("no record")
	ErrCorrupt = errors.New("corrupt record")
)

// Encode makes the record's bytes. What is too long is cut: a trace at its end
// (the death stands at its start), log and dmesg at their start.
func (r Record) Encode() []byte {
	r.bound()
	meta := r.meta()
	r.Trace = r.Trace[:min(len(r.Trace), maxTrace)]
	r.Log = lastLines(r.Log, maxLog)
	r.Dmesg = lastLines(r.Dmesg, MaxRecord-headerSize-len(meta)-len(r.Trace)-len(r.Log))
	b := make([]byte, headerSize, headerSize+len(meta)+len(r.Trace)+len(r.Log)+len(r.Dmesg))
	copy(b, magic)
	binary.LittleEndian.PutUint32(b[8:], version)
	for i, part := range [][]byte{meta, r.Trace, r.Log, r.Dmesg} {
		binary.LittleEndian.PutUint32(b[12+4*i:], uint32(len(part)))
		b = append(b, part...)
	}
	sum := sumOf(b)
	copy(b[sumAt:], sum[:])
	return b
}

// meta is at most 25 KiB: bounded texts, which JSON makes twice as long at most.
func (r Record) meta() []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(r) // cannot fail: strings, numbers, and a time that bound checked
	return b.Bytes()
}

func (r *Record) bound() {
	for _, s := range []*string{(*string)(&r.Kind), &r.BootID, &r.Node, &r.Build, &r.Stage, &r.WaitStatus, &r.Reason, &r.Frame} {
		*s = bounded(*s)
	}
	lines := make([]string, 0, maxLines)
	for _, line := range r.Summary[:min(len(r.Summary), maxLines)] {
		lines = append(lines, bounded(line))
	}
	r.Summary = lines
	if y := r.Time.Year(); y < 1 || y > 9999 { // JSON has no others
		r.Time = time.Time{}
	}
}

// bounded makes one short line.
func bounded(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s[:min(len(s), maxText)], "?"))
}

// lastLines is the end of b, at most limit bytes, from the start of a line.
func lastLines(b []byte, limit int) []byte {
	if len(b) <= limit {
		return b
	}
	b = b[len(b)-limit:]
	for i, c := range b {
		if c == '\n' {
			return b[i+1:]
		}
	}
	return b
}

func sumOf(b []byte) [sha256.Size]byte {
	h := sha256.New()
	h.Write(b[:sumAt])
	h.Write(b[headerSize:])
	return [sha256.Size]byte(h.Sum(nil))
}

// Parse reads the record at the start of b, and returns its length with it;
// what follows is not looked at. Errors: ErrBlank, ErrCorrupt.
func Parse(b []byte) (Record, int, error) {
	n, err := measure(b)
	if err != nil {
		return Record{}, 0, err
	}
	raw := b[:n]
	if sum := sumOf(raw); string(sum[:]) != string(raw[sumAt:headerSize]) {
		return Record{}, 0, fmt.Errorf("%w: wrong checksum", ErrCorrupt)
	}
	var parts [4][]byte
	rest := raw[headerSize:]
	for i := range parts {
		size := binary.LittleEndian.Uint32(raw[12+4*i:])
		parts[i], rest = rest[:size:size], rest[size:]
	}
	var r Record
	if err := json.Unmarshal(parts[0], &r); err != nil {
		return Record{}, 0, fmt.Errorf("%w: decode meta: %w", ErrCorrupt, err)
	}
	r.bound()
	r.Trace, r.Log, r.Dmesg = parts[1], parts[2], parts[3]
	return r, n, nil
}

// measure checks the header and returns the record's length, of which b has
// enough.
func measure(b []byte) (int, error) {
	n, err := lengthOf(b)
	if err == nil && n > len(b) {
		err = fmt.Errorf("%w: cut off", ErrCorrupt)
	}
	return n, err
}

// lengthOf is the length that a header tells.
func lengthOf(b []byte) (int, error) {
	if len(b) < headerSize || allZero(b[:headerSize]) {
		return 0, ErrBlank
	}
	if string(b[:len(magic)]) != magic {
		return 0, fmt.Errorf("%w: wrong magic", ErrCorrupt)
	}
	if v := binary.LittleEndian.Uint32(b[8:]); v != version {
		return 0, fmt.Errorf("%w: version %d, this program reads %d", ErrCorrupt, v, version)
	}
	n := uint64(headerSize)
	for i := range 4 {
		n += uint64(binary.LittleEndian.Uint32(b[12+4*i:]))
	}
	if n > MaxRecord {
		return 0, fmt.Errorf("%w: %d bytes long", ErrCorrupt, n)
	}
	return int(n), nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}

// ID names a record by its content: the first 8 bytes of its checksum, in hex.
// The same record sent twice is the same bundle. raw must be a record.
func ID(raw []byte) string { return hex.EncodeToString(raw[sumAt : sumAt+8]) }

// Line is a record's reason in one line: "agent crash: panic: ...".
func (r Record) Line() string {
	switch r.Kind {
	case Kernel:
		return r.Reason
	case Agent, Init:
		return string(r.Kind) + " crash: " + r.Reason
	case Service:
		return "service " + r.Reason
	}
	return r.Reason
}

// Redact takes out of a log what is a secret there: node parameters on the
// kernel's command line hold a ticket, and the kernel logs that line.
func Redact(text []byte) []byte {
	const key = "reveille.node="
	var out []byte
	for {
		head, tail, found := bytes.Cut(text, []byte(key))
		if !found {
			if out == nil {
				return text
			}
			return append(out, text...)
		}
		out = append(append(out, head...), key+"[not shown]"...)
		end := 0
		for end < len(tail) && tail[end] > ' ' && tail[end] < utf8.RuneSelf {
			end++
		}
		text = tail[end:]
	}
}
