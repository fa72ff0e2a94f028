package crash

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// Harvest is what the kernel kept of boots before this one (fs/pstore).
type Harvest struct {
	Records []Stored // whole ones, of ours out of pmsg and made of the kernel's dumps
	Files   []string // what they were read from, to be removed once they are safe
}

// Bounds of what is read. A pstore has some 64 KiB to 1 MiB, in EFI variables
// of 1 KiB each; anything larger is not one.
const (
	maxPstoreFiles = 512
	maxPstoreFile  = 256 << 10
	maxPstoreTotal = 2 << 20
)

// ReadPstore reads a mounted pstore. What is broken in there is left out: it
// is memory that survived a crash. A file system without files, or none, is
// an empty harvest. The error is the first of perhaps many.
func ReadPstore(fsys fs.FS) (Harvest, error) {
	var h Harvest
	entries, err := fs.ReadDir(fsys, ".")
	if errors.Is(err, fs.ErrNotExist) {
		return h, nil
	}
	if err != nil {
		return h, fmt.Errorf("read pstore: %w", err)
	}
	var dumps []dump
	var errs []error
	total := 0
	for _, e := range entries[:min(len(entries), maxPstoreFiles)] {
		kind, _, _ := strings.Cut(e.Name(), "-")
		if kind != "dmesg" && kind != "pmsg" {
			continue
		}
		text, err := readSome(fsys, e.Name())
		if err != nil {
			errs = append(errs, fmt.Errorf("read pstore: %w", err))
			continue
		}
		if total += len(text); total > maxPstoreTotal {
			break // what is left is harvested at the next boot
		}
		h.Files = append(h.Files, e.Name())
		if kind == "pmsg" {
			h.Records = append(h.Records, findRecords(text)...)
		} else {
			dumps = append(dumps, parseDump(e.Name(), text))
		}
	}
	h.Records = append(h.Records, kernelRecords(dumps)...)
	return h, cmp.Or(errs...)
}

func readSome(fsys fs.FS, name string) ([]byte, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxPstoreFile))
}

// findRecords returns the whole records among what was written to /dev/pmsg0,
// where each write follows the one before, and the oldest may be cut.
func findRecords(text []byte) (found []Stored) {
	for {
		i := bytes.Index(text, []byte(magic))
		if i < 0 {
			return found
		}
		text = text[i:]
		st, err := Decode(text)
		if err != nil {
			text = text[len(magic):]
			continue
		}
		st.Raw = slices.Clone(st.Raw)
		found = append(found, st)
		text = text[len(st.Raw):]
	}
}

// dump is one file of a kernel's last words. The kernel splits them to fit its
// storage, the newest in part 1.
type dump struct {
	name  string
	group string // "Panic#1"
	part  int
	text  []byte
}

// dumpHead is what fs/pstore/platform.c puts before each part.
var dumpHead = regexp.MustCompile(`\A(\w+#\d+) Part(\d+)\n`)

func parseDump(name string, text []byte) dump {
	d := dump{name: name, group: name, text: text}
	if m := dumpHead.FindSubmatch(text); m != nil {
		d.group = string(m[1])
		d.part, _ = strconv.Atoi(string(m[2])) // digits, and an absurd number sorts as well as any
		d.text = text[len(m[0]):]
	}
	return d
}

// kernelRecords makes a record of each dump, its parts in the order of time.
func kernelRecords(parts []dump) (all []Stored) {
	slices.SortStableFunc(parts, func(a, b dump) int {
		return cmp.Or(cmp.Compare(a.group, b.group), cmp.Compare(b.part, a.part), cmp.Compare(a.name, b.name))
	})
	for len(parts) > 0 {
		n := 1
		for n < len(parts) && parts[n].group == parts[0].group {
			n++
		}
		var text []byte
		for _, p := range parts[:n] {
			text = append(text, p.text...)
			if len(p.text) > 0 && p.text[len(p.text)-1] != '\n' {
				text = append(text, '\n')
			}
		}
		parts = parts[n:]
		r := Record{Kind: Kernel, Reason: kernelReason(text), Written: int64(len(text)), Dmesg: Redact(text)}
		if st, err := Decode(r.Encode()); err == nil {
			all = append(all, st)
		}
	}
	return all
}

// logPrefix is the level and time before a line of a dump: "<0>[    2.345678] ".
var logPrefix = regexp.MustCompile(`^(<\d+>)?(\[ *\d+\.\d+\] ?)?`)

// kernelSigns begin what a kernel says when it dies, the strongest first.
var kernelSigns = []string{"Kernel panic - not syncing: ", "Oops: ", "BUG: ", "general protection fault", "Out of memory: "}

// KernelPanic begins the reason of a record whose kernel did not live on.
const KernelPanic = "kernel panic: "

func kernelReason(text []byte) string {
	best, reason := len(kernelSigns), "kernel dump without a known reason"
	for line := range strings.Lines(string(text)) {
		line = logPrefix.ReplaceAllString(strings.TrimSpace(line), "")
		for rank, sign := range kernelSigns[:best] {
			if strings.HasPrefix(line, sign) {
				best, reason = rank, "kernel: "+line
				if rank == 0 {
					reason = KernelPanic + strings.TrimPrefix(line, sign)
				}
				break
			}
		}
	}
	return bounded(strings.Map(printableASCII, reason))
}

func printableASCII(r rune) rune {
	if r < ' ' || r > '~' {
		return '?'
	}
	return r
}
