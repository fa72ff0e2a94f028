package netcfg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// sysctlFiles reads and writes kernel settings. Those below net/ are of the
// calling thread's namespace.
type sysctlFiles struct {
	wanted []Sysctl                // nil: none are ours
	load   func(name string) error // loads a kernel module, nil for nobody does
	tried  map[string]bool         // modules that were asked for
}

func openNetwork(opt Options) (network, error) {
	k, err := openKernel(opt.ResolvConf)
	if err != nil {
		return nil, err
	}
	k.hosts = opt.Hosts
	k.sysctls = sysctlFiles{wanted: opt.Sysctls, load: opt.LoadModule, tried: map[string]bool{}}
	return k, nil
}

func (f *sysctlFiles) file(s Sysctl) string { return filepath.Join("/proc/sys", s.path()) }

// read is those of the wanted settings that exist. One that has no value yet
// (stable_secret) is empty; one that can only be written is no setting to hold.
func (f *sysctlFiles) read() map[string]string {
	if f.wanted == nil {
		return nil
	}
	out := make(map[string]string, len(f.wanted))
	for _, s := range f.wanted {
		text, err := os.ReadFile(f.file(s))
		if errors.Is(err, fs.ErrNotExist) && f.loadFor(s) {
			text, err = os.ReadFile(f.file(s))
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		out[s.Key] = strings.TrimSpace(string(text))
	}
	return out
}

// write sets it and reads it back: the kernel clamps some values in silence.
func (f *sysctlFiles) write(s Sysctl) error {
	err := os.WriteFile(f.file(s), []byte(s.Value+"\n"), 0)
	if errors.Is(err, unix.ENOENT) && f.loadFor(s) {
		err = os.WriteFile(f.file(s), []byte(s.Value+"\n"), 0)
	}
	if err != nil {
		var path *fs.PathError
		if errors.As(err, &path) {
			err = path.Err // the operation names the key
		}
		return err
	}
	text, err := os.ReadFile(f.file(s))
	if err == nil && !s.same(string(text)) {
		return fmt.Errorf("the kernel made it %q", strings.TrimSpace(string(text)))
	}
	return nil
}

// loadFor loads the module that the setting or its value comes with, once. It
// reports whether it is worth another try.
func (f *sysctlFiles) loadFor(s Sysctl) bool {
	module := s.module()
	if module == "" || f.load == nil || f.tried[module] {
		return false
	}
	f.tried[module] = true
	return f.load(module) == nil
}
