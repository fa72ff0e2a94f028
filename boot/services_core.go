package boot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"reveille/boot/crash"
	"reveille/boot/proc"
	"reveille/boot/service"
)

// coreFile is what init's handler of dumps has of an incarnation (proc.CoreDir).
func coreFile(ref service.Ref, kind string) string {
	return filepath.Join(proc.CoreDir, fmt.Sprintf("%s-%d.%s", ref.Service, ref.Incarnation, kind))
}

// wantCore asks for the core of an incarnation, should it crash.
func wantCore(ref service.Ref, limit uint64) error {
	if err := os.MkdirAll(proc.CoreDir, 0o700); err != nil {
		return fmt.Errorf("ask for core: %w", err)
	}
	if err := os.WriteFile(coreFile(ref, "limit"), fmt.Append(nil, limit), 0o600); err != nil {
		return fmt.Errorf("ask for core: %w", err)
	}
	return nil
}

// coreOf is the core that an incarnation left, as a record has it, and a line
// about it; both are empty if it left none.
func coreOf(ref service.Ref) (packed []byte, text string) {
	f, err := os.Open(coreFile(ref, "core"))
	if err != nil {
		return nil, "" // none was wanted, or it did not crash
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, "core: " + err.Error()
	}
	text = fmt.Sprintf("core: %d bytes", info.Size())
	if _, err := os.Stat(coreFile(ref, "cut")); err == nil {
		text += ", cut there"
	}
	packed, taken, err := crash.PackCore(f)
	if err != nil {
		text += ", " + err.Error()
	}
	return packed, fmt.Sprintf("%s; the first %d of them are in this record", text, taken)
}

// dropCore gives the memory back.
func dropCore(ref service.Ref) error {
	for _, kind := range []string{"limit", "core", "cut"} {
		if err := os.Remove(coreFile(ref, kind)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove core: %w", err)
		}
	}
	return nil
}
