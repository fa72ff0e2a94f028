package state

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"

	"reveille/tpm"
)

// slotSize is the size of one copy, bytes: a config has 2 to 4 KiB, a network
// document of many bonds some 10 more, and a FAT cluster is at most 64.
const slotSize = 64 << 10

// slotNames are the two copies, in the order of their first writing.
var slotNames = [2]string{"config.0", "config.1"}

// Slots are two preallocated files of one size that are overwritten in place,
// whole, one after the other, each synced and read back.
//
// In place, because on FAT everything else needs the directory or the
// allocation table to change with the data: a temporary file with fsync and
// rename lost or destroyed configs in one of three simulated power cuts, this
// in none. An acknowledged write is in both copies, so of two copies one may be
// damaged at any time, and the highest valid generation wins.
type Slots struct{ folder folder }

// folder is what Slots need of a directory; simulated in tests.
type folder interface {
	// read returns the content; fs.ErrNotExist when there is no such file.
	read(name string) ([]byte, error)
	// create makes the file durable with this content, or leaves none or the
	// previous one.
	create(name string, content []byte) error
	// overwrite replaces the content of a file of the same size, in place and
	// durably, and returns what the disk then holds.
	overwrite(name string, content []byte) ([]byte, error)
}

// Stored is what both copies together hold.
type Stored struct {
	Envelope *tpm.Envelope // the highest valid generation
	Raw      []byte        // its bytes
	Whole    bool          // both copies hold it
	Warnings []string
}

// copyState is what one copy holds: exactly one of valid, blank and err, or
// none of them for a file that does not exist.
type copyState struct {
	valid *tpm.Envelope
	blank bool
	err   error  // Corrupt, Newer or Unreadable
	raw   []byte // the file, if it could be read and has its size
}

func (c copyState) missing() bool { return c.valid == nil && !c.blank && c.err == nil }

// Read returns the best copy, or Absent, Unreadable, Corrupt or Newer.
func (s Slots) Read() (Stored, error) {
	states := s.states()
	best := newest(states)
	if best < 0 {
		return judgeNone(states)
	}
	other := states[1-best]
	st := Stored{Envelope: states[best].valid, Raw: states[best].raw}
	switch {
	case other.err != nil:
		st.Warnings = []string{fmt.Sprintf("copy %s: %v: using %s", slotNames[1-best], other.err, slotNames[best])}
	case other.valid != nil:
		st.Whole = bytes.Equal(other.raw, st.Raw)
	}
	return st, nil
}

// judgeNone tells a node that never stored anything from one that lost it.
//
// The files are created blank before the first write, and blank is a valid
// envelope: zeros or garbage are never taken for it. config.0 is written first,
// and no write was acknowledged before both copies had it, so a damaged
// config.0 beside a blank config.1 is a first write that the power cut: nothing
// that anybody relied on is lost. Everything else is damage.
func judgeNone(c [2]copyState) (Stored, error) {
	idle := func(c copyState) bool { return c.blank || c.missing() }
	if idle(c[0]) && idle(c[1]) {
		return Stored{}, &tpm.Error{Outcome: tpm.Absent}
	}
	if c[1].blank && errors.Is(c[0].err, tpm.Corrupt) {
		w := fmt.Sprintf("copy %s: %v: the first write was cut off and never acknowledged, starting anew", slotNames[0], c[0].err)
		return Stored{Warnings: []string{w}}, &tpm.Error{Outcome: tpm.Absent}
	}
	// The most promising first: a file that cannot be read may be whole.
	for _, o := range []tpm.Outcome{tpm.Unreadable, tpm.Newer, tpm.Corrupt} {
		for i := range c {
			if errors.Is(c[i].err, o) {
				return Stored{}, &tpm.Error{Outcome: o, Detail: describe(c)}
			}
		}
	}
	return Stored{}, &tpm.Error{Outcome: tpm.Corrupt, Detail: describe(c)}
}

func describe(c [2]copyState) string {
	text := func(c copyState) string {
		switch {
		case c.err != nil:
			return c.err.Error()
		case c.blank:
			return "never written"
		}
		return "no such file"
	}
	return fmt.Sprintf("%s %s, %s %s", slotNames[0], text(c[0]), slotNames[1], text(c[1]))
}

func (s Slots) states() (c [2]copyState) {
	for i, name := range slotNames {
		c[i] = s.state(name)
	}
	return c
}

func (s Slots) state(name string) copyState {
	raw, err := s.folder.read(name)
	if errors.Is(err, fs.ErrNotExist) {
		return copyState{}
	}
	if err != nil {
		return copyState{err: &tpm.Error{Outcome: tpm.Unreadable, Err: err}}
	}
	if len(raw) != slotSize {
		return copyState{err: &tpm.Error{Outcome: tpm.Corrupt, Detail: fmt.Sprintf("%d bytes instead of %d", len(raw), slotSize)}}
	}
	e, err := tpm.Parse(raw)
	switch {
	case err != nil:
		return copyState{err: err, raw: raw}
	case e.Kind == tpm.Blank:
		return copyState{blank: true, raw: raw}
	}
	return copyState{valid: e, raw: raw}
}

// newest returns the copy with the highest valid generation, or -1.
func newest(c [2]copyState) int {
	best := -1
	for i := range c {
		if c[i].valid != nil && (best < 0 || c[i].valid.Header.Generation > c[best].valid.Header.Generation) {
			best = i
		}
	}
	return best
}

// Write makes both copies hold raw, an encoded envelope, the worse copy first:
// until that is on the disk and read back, the better one is not touched.
func (s Slots) Write(raw []byte) error {
	if len(raw) > slotSize {
		return fmt.Errorf("write config: %d bytes, at most %d", len(raw), slotSize)
	}
	padded := make([]byte, slotSize)
	copy(padded, raw)
	states := s.states()
	if err := s.prepare(states); err != nil {
		return err
	}
	first := 0
	if newest(states) == 0 {
		first = 1
	}
	for _, i := range []int{first, 1 - first} {
		if bytes.Equal(states[i].raw, padded) {
			continue // a repair: this copy is the good one
		}
		if err := s.writeOne(slotNames[i], padded); err != nil {
			return err
		}
	}
	return nil
}

// prepare creates what is missing or was cut short, blank, before any content
// is written: both files exist before the first write.
func (s Slots) prepare(states [2]copyState) error {
	blank, err := tpm.Encode(tpm.Blank, tpm.Header{}, nil)
	if err != nil {
		return err
	}
	padded := make([]byte, slotSize)
	copy(padded, blank)
	for i, name := range slotNames {
		if states[i].raw != nil {
			continue
		}
		if err := s.folder.create(name, padded); err != nil {
			return fmt.Errorf("create %s: %w", name, err)
		}
	}
	return nil
}

func (s Slots) writeOne(name string, padded []byte) error {
	back, err := s.folder.overwrite(name, padded)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if !bytes.Equal(back, padded) {
		return fmt.Errorf("write %s: the disk returns something else than was written", name)
	}
	return nil
}
