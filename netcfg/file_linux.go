package netcfg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// writeFile replaces a file whole: readers see the old or the new text, also
// when the disk is full or the power fails.
func writeFile(path, text string) error {
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // after the rename there is nothing to remove
	_, err = f.WriteString(text)
	err = errors.Join(err, f.Chmod(0o644), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}

// readText is a file's text, "" when it does not exist; nil without a path.
func readText(path string) (*string, error) {
	if path == "" {
		return nil, nil
	}
	b, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	text := string(b)
	return &text, nil
}

func readResolvConf(s *State, path string) (err error) {
	if s.ResolvConf, err = readText(path); err != nil {
		return fmt.Errorf("read name servers: %w", err)
	}
	return nil
}
