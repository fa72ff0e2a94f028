package boot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

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

// coreOf is the core that an incarnation left, and a line about it; both empty
// if it left none.
func coreOf(ref service.Ref, limit uint64) (file, text string) {
	info, err := os.Stat(coreFile(ref, "core"))
	if err != nil {
		return "", "" // none was wanted, or it did not crash
	}
	text = fmt.Sprintf("core: %d bytes", info.Size())
	if uint64(info.Size()) >= limit {
		text += ", cut there"
	}
	return coreFile(ref, "core"), text
}

// dropCore gives the memory back.
func dropCore(ref service.Ref) error {
	for _, kind := range []string{"limit", "core"} {
		if err := os.Remove(coreFile(ref, kind)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove core: %w", err)
		}
	}
	return nil
}
