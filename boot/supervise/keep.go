package supervise

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// keeper has what must outlive the agent in files of a folder that is memory, a
// service a file: whole, or not there.
type keeper struct{ dir string }

func (k keeper) put(kept Kept) error {
	text, err := json.Marshal(kept)
	if err != nil {
		return fmt.Errorf("keep %s: %w", kept.Ref, err)
	}
	file := filepath.Join(k.dir, kept.Service+".json")
	if err := os.WriteFile(file+".new", text, 0o600); err != nil {
		return fmt.Errorf("keep %s: %w", kept.Ref, err)
	}
	if err := os.Rename(file+".new", file); err != nil {
		return fmt.Errorf("keep %s: %w", kept.Ref, err)
	}
	return nil
}

// all reads what an agent before this one kept. What cannot be read is told,
// and is as if it had not been.
func (k keeper) all() (all []Kept, problems []error) {
	if err := os.MkdirAll(k.dir, 0o700); err != nil {
		return nil, []error{fmt.Errorf("make the services' folder: %w", err)}
	}
	entries, err := os.ReadDir(k.dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		problems = append(problems, err)
	}
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".json") {
			continue
		}
		var kept Kept
		text, err := os.ReadFile(filepath.Join(k.dir, e.Name()))
		if err == nil {
			err = json.Unmarshal(text, &kept)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("read what was kept of %s: %w", e.Name(), err))
			continue
		}
		all = append(all, kept)
	}
	return all, problems
}
