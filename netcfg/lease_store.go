package netcfg

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// leaseStore keeps leases over a restart of the program, a file for each
// client. Their times count from the machine's start, so they mean nothing in
// another boot, and the folder belongs on a tmpfs.
type leaseStore struct {
	dir  string // "" keeps nothing
	boot string // the kernel's id of this boot
}

type savedLease struct {
	Boot   string
	Client []byte // its identifier: a lease is for nobody else
	Lease  json.RawMessage
}

func (s leaseStore) path(t tenantKey, name string) string {
	if t.six {
		return filepath.Join(s.dir, name+".v6.json")
	}
	return filepath.Join(s.dir, name+".v4.json")
}

// load fills lease in and reports whether there was one. A file that cannot be
// used is as good as none: a server is asked instead.
func (s leaseStore) load(path string, client []byte, lease any) bool {
	if s.dir == "" {
		return false
	}
	text, err := os.ReadFile(path)
	var saved savedLease
	return err == nil && json.Unmarshal(text, &saved) == nil && saved.Boot == s.boot &&
		bytes.Equal(saved.Client, client) && json.Unmarshal(saved.Lease, lease) == nil
}

// save keeps the lease, or with nil that there is none.
func (s leaseStore) save(path string, client []byte, lease any) error {
	if s.dir == "" {
		return nil
	}
	if lease == nil {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("forget lease: %w", err)
		}
		return nil
	}
	raw, err := json.Marshal(lease)
	if err == nil {
		raw, err = json.Marshal(savedLease{s.boot, client, raw})
	}
	if err == nil {
		err = os.MkdirAll(s.dir, 0o755)
	}
	if err == nil {
		err = writeFile(path, string(raw))
	}
	if err != nil {
		return fmt.Errorf("keep lease: %w", err)
	}
	return nil
}
