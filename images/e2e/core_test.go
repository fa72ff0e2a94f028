//go:build e2e

package e2e

import (
	"bytes"
	"debug/elf"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"

	"reveille/boot/cluster/operator"
	"reveille/boot/crash"
)

// coreLimit is less than a Go program's core: 64 MiB of address space alone are
// one arena of its heap.
const coreLimit = 8 << 20

// corePart is what a bundle tells of its core.
var corePart = regexp.MustCompile(`(?m)^core: (\d+) bytes, cut there; the first (\d+) of them are in this record$`)

// hasCore wants the record of a server that aborted to have its core: cut where
// its definition says, as much of it as is announced, of that very process.
func (t *vmRack) hasCore(r operator.CrashRecord) {
	t.Helper()
	var taken, kept int
	if m := corePart.FindString(r.Trace); m == "" {
		t.Fatalf("the bundle tells of no core:\n%s", r.Trace)
	} else if _, err := fmt.Sscanf(m, "core: %d bytes, cut there; the first %d", &taken, &kept); err != nil {
		t.Fatal(err)
	}
	if taken != coreLimit || kept == 0 || kept > taken || r.CoreBytes != kept || r.Size > crash.MaxRecord {
		t.Errorf("of the core %d bytes were taken, %d kept, %d are there, in a record of %d", taken, kept, r.CoreBytes, r.Size)
	}
	file := filepath.Join(t.TempDir(), "core")
	if _, err := t.rack.Operator(t.ctx, "node", "bundle", t.node.Name, r.ID, "--core", file); err != nil { // it checks the digest
		t.Fatal(err)
	}
	core, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	d, err := readCore(core)
	if err != nil || len(core) != kept {
		t.Fatalf("%d of %d bytes of core: %v", len(core), kept, err)
	}
	if d.signal != int(syscall.SIGABRT) || d.program != "vmserver" || !strings.Contains(r.Log, fmt.Sprintf("pid %d, without an instance", d.pid)) {
		t.Errorf("the core is of %+v; log:\n%s", d, r.Log)
	}
}

// dumped is whose core it is, and why it was dumped.
type dumped struct {
	signal, pid int
	program     string
}

// Notes of a core (elf(5); linux/elfcore.h, struct elf_prstatus and
// elf_prpsinfo of amd64).
const (
	noteStatus, statusSignal   = 1, 12 // NT_PRSTATUS: pr_cursig, 16 bits
	noteProcess, processPID    = 3, 24 // NT_PRPSINFO: pr_pid, 32 bits
	processName, processLength = 40, 16
)

// readCore reads the notes at the head of a core: first is the thread that the
// signal was for.
func readCore(core []byte) (d dumped, err error) {
	f, err := elf.NewFile(bytes.NewReader(core))
	if err != nil {
		return d, err
	}
	if f.Type != elf.ET_CORE || len(f.Progs) == 0 || f.Progs[0].Type != elf.PT_NOTE {
		return d, fmt.Errorf("an ELF file of type %s, not a core that begins with its notes", f.Type)
	}
	notes, err := io.ReadAll(f.Progs[0].Open())
	if err != nil {
		return d, fmt.Errorf("read notes: %w", err)
	}
	const head = 12
	aligned := func(n uint32) int { return int(n+3) &^ 3 }
	for len(notes) >= head {
		name, size, kind := f.ByteOrder.Uint32(notes), f.ByteOrder.Uint32(notes[4:]), f.ByteOrder.Uint32(notes[8:])
		from := head + aligned(name)
		if len(notes) < from+aligned(size) {
			return d, errors.New("read notes: one is cut off")
		}
		desc := notes[from : from+int(size)]
		switch {
		case kind == noteStatus && d.signal == 0 && len(desc) > statusSignal+2:
			d.signal = int(binary.LittleEndian.Uint16(desc[statusSignal:]))
		case kind == noteProcess && len(desc) >= processName+processLength:
			d.pid = int(binary.LittleEndian.Uint32(desc[processPID:]))
			d.program, _, _ = strings.Cut(string(desc[processName:processName+processLength]), "\x00")
		}
		notes = notes[from+aligned(size):]
	}
	return d, nil
}
