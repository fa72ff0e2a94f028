package crash

import (
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Entry is the journal's one entry: the boot that wrote it, and whether that
// boot came to an ordered end.
type Entry struct {
	BootID string `json:"bootId"`
	Build  string `json:"build,omitempty"`
	Clean  bool   `json:"clean"`
	Forced bool   `json:"forced,omitempty"` // an ordered end that nobody asked for: the agent died in a loop
	Reason string `json:"reason,omitempty"` // of the ordered end: "reboot: asked by operator"
	Doomed string `json:"doomed,omitempty"` // why init leaves the boot to the watchdog, while it does
}

// An entry in bytes: magic, SHA-256 of what follows, JSON up to a zero. It is
// one sector, which a disk writes whole or not at all.
const (
	entryMagic = "RVBOOT1\n"
	entrySize  = 512
	entryHead  = len(entryMagic) + sha256.Size
)

// Encode makes the entry's sector; a reason that does not fit is cut.
func (e Entry) Encode() []byte {
	// The longest is halved until all fits: JSON may take six bytes for one.
	body, _ := json.Marshal(e) // strings and a bool: cannot fail
	for len(body) > entrySize-entryHead {
		longest := &e.Reason
		for _, s := range []*string{&e.Build, &e.BootID, &e.Doomed} {
			if len(*s) > len(*longest) {
				longest = s
			}
		}
		*longest = strings.ToValidUTF8((*longest)[:len(*longest)/2], "")
		body, _ = json.Marshal(e)
	}
	b := make([]byte, entrySize)
	copy(b, entryMagic)
	copy(b[entryHead:], body)
	sum := sha256.Sum256(b[entryHead:])
	copy(b[len(entryMagic):], sum[:])
	return b
}

// ParseEntry is the inverse. Errors: ErrBlank, ErrCorrupt.
func ParseEntry(b []byte) (Entry, error) {
	var e Entry
	if len(b) == 0 || allZero(b) {
		return e, ErrBlank
	}
	if len(b) < entrySize || string(b[:len(entryMagic)]) != entryMagic {
		return e, fmt.Errorf("boot journal: %w", ErrCorrupt)
	}
	b = b[:entrySize]
	if sum := sha256.Sum256(b[entryHead:]); string(sum[:]) != string(b[len(entryMagic):entryHead]) {
		return e, fmt.Errorf("boot journal: %w: wrong checksum", ErrCorrupt)
	}
	if err := json.Unmarshal([]byte(strings.TrimRight(string(b[entryHead:]), "\x00")), &e); err != nil {
		return Entry{}, fmt.Errorf("boot journal: %w: %w", ErrCorrupt, err)
	}
	return e, nil
}

// Journal is the file with the entry, in the folder of the records.
type Journal struct{ Dir string }

func (j Journal) path() string { return filepath.Join(j.Dir, "boot") }

// Read returns what the last boot wrote; ErrBlank when none did.
func (j Journal) Read() (Entry, error) {
	f, err := os.Open(j.path())
	if errors.Is(err, fs.ErrNotExist) {
		return Entry{}, ErrBlank
	}
	if err != nil {
		return Entry{}, fmt.Errorf("read boot journal: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, entrySize))
	if err != nil {
		return Entry{}, fmt.Errorf("read boot journal: %w", err)
	}
	return ParseEntry(b)
}

// Write replaces the entry, and returns when that is durable.
func (j Journal) Write(e Entry) error {
	err := overwrite(j.path(), chunk{0, e.Encode()})
	if errors.Is(err, fs.ErrNotExist) {
		err = j.create(e)
	}
	if err != nil {
		return fmt.Errorf("write boot journal: %w", err)
	}
	return nil
}

func (j Journal) create(e Entry) error {
	if err := os.MkdirAll(j.Dir, 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(j.path(), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(e.Encode())
	return cmp.Or(err, f.Sync(), f.Close(), syncDir(j.Dir), syncDir(filepath.Dir(j.Dir)))
}
