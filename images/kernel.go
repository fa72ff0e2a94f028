// Package images makes what a node boots from: the initramfs, with the kernel
// modules it needs and their index. The QEMU bench that runs the result is in
// images/bench, the runner for tests that need a kernel of their own in
// images/guestexec.
package images

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"

	"reveille/boot/modules"
)

// Kernel is an unpacked kernel package: boot/vmlinuz-<release> and
// lib/modules/<release>.
type Kernel struct {
	Release string // uname -r
	Image   string // path of the bzImage

	dir     string
	files   map[string]string // module name to its path below dir
	builtin []string
}

// FindKernel looks at an unpacked kernel package. More than one kernel in it is
// an error: which one boots must not depend on the order of a directory.
func FindKernel(root string) (Kernel, error) {
	dirs, err := filepath.Glob(filepath.Join(root, "lib/modules/*"))
	if err != nil || len(dirs) != 1 {
		return Kernel{}, fmt.Errorf("find kernel in %s: want one directory in lib/modules, have %d", root, len(dirs))
	}
	k := Kernel{dir: dirs[0], Release: filepath.Base(dirs[0]), files: map[string]string{}}
	k.Image = filepath.Join(root, "boot/vmlinuz-"+k.Release)
	if _, err := os.Stat(k.Image); err != nil {
		return Kernel{}, fmt.Errorf("find kernel: %w", err)
	}
	err = filepath.WalkDir(k.dir, func(file string, d fs.DirEntry, err error) error {
		if name, ok := moduleName(d.Name()); err == nil && ok {
			k.files[name], err = filepath.Rel(k.dir, file)
		}
		return err
	})
	if err != nil {
		return Kernel{}, fmt.Errorf("list modules: %w", err)
	}
	k.builtin, err = readBuiltin(filepath.Join(k.dir, "modules.builtin"))
	return k, err
}

// readBuiltin reads modules.builtin, a list of paths; kernels without modules
// lack it.
func readBuiltin(file string) ([]string, error) {
	f, err := os.Open(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list built-in modules: %w", err)
	}
	defer f.Close()
	var names []string
	s := bufio.NewScanner(f)
	for s.Scan() {
		if name, ok := moduleName(path.Base(s.Text())); ok {
			names = append(names, name)
		}
	}
	return names, s.Err()
}

// moduleName turns virtio-net.ko.xz into virtio_net.
func moduleName(file string) (string, bool) {
	base, ext, ok := strings.Cut(file, ".ko")
	if !ok || ext != "" && decompressors[ext] == nil {
		return "", false
	}
	return modules.CanonicalName(base), true
}

// decompressors by what follows ".ko". Modules go into the archive plain: it is
// compressed as a whole, and better.
var decompressors = map[string]func(io.Reader) (io.Reader, error){
	".gz": func(r io.Reader) (io.Reader, error) { return gzip.NewReader(r) },
	".xz": func(r io.Reader) (io.Reader, error) { return xz.NewReader(r) },
	".zst": func(r io.Reader) (io.Reader, error) {
		return zstd.NewReader(r, zstd.WithDecoderConcurrency(1))
	},
}

// loadedModule is a module chosen for an image.
type loadedModule struct {
	modules.Module
	content []byte
}

// choose reads the modules of a set and everything they depend on, sorted by
// name. missing are names of the set that this kernel does not have.
func (k Kernel) choose(set Set) (chosen []loadedModule, missing []string, err error) {
	builtin := map[string]bool{}
	for _, b := range k.builtin {
		builtin[b] = true
	}
	queue, missing, err := k.pick(set, builtin)
	if err != nil {
		return nil, nil, err
	}
	have := map[string]loadedModule{}
	for len(queue) > 0 {
		name := queue[0]
		queue = queue[1:]
		if _, ok := have[name]; ok || builtin[name] {
			continue
		}
		m, err := k.load(name)
		if err != nil {
			return nil, nil, err
		}
		have[name] = m
		queue = append(queue, m.Depends...)
		for _, s := range m.Soft {
			if k.files[s] != "" {
				queue = append(queue, s)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(have)) {
		chosen = append(chosen, have[name])
	}
	return chosen, missing, nil
}

// pick turns a set into module names of this kernel.
func (k Kernel) pick(set Set, builtin map[string]bool) (names, missing []string, err error) {
	for _, n := range set.Must {
		n = modules.CanonicalName(n)
		if k.files[n] == "" && !builtin[n] {
			return nil, nil, fmt.Errorf("choose modules: kernel %s has no %s", k.Release, n)
		}
		names = append(names, n)
	}
	for _, n := range set.May {
		n = modules.CanonicalName(n)
		if k.files[n] == "" && !builtin[n] {
			missing = append(missing, n)
			continue
		}
		names = append(names, n)
	}
	for _, dir := range set.Dirs {
		for name, file := range k.files {
			if strings.HasPrefix(file, "kernel/"+dir+"/") {
				names = append(names, name)
			}
		}
	}
	return names, missing, nil
}

func (k Kernel) load(name string) (loadedModule, error) {
	file := k.files[name]
	if file == "" {
		return loadedModule{}, fmt.Errorf("read module %s: kernel %s has none", name, k.Release)
	}
	content, err := readModule(filepath.Join(k.dir, file))
	if err != nil {
		return loadedModule{}, fmt.Errorf("read module %s: %w", name, err)
	}
	m, err := ParseModinfo(content)
	if err != nil {
		return loadedModule{}, fmt.Errorf("read module %s: %w", name, err)
	}
	m.Name = name
	m.Path = file
	if compression := path.Ext(file); compression != ".ko" {
		m.Path = strings.TrimSuffix(file, compression)
	}
	return loadedModule{m, content}, nil
}

func readModule(file string) ([]byte, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	open := decompressors[path.Ext(file)]
	if open == nil {
		return io.ReadAll(f)
	}
	r, err := open(f)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}
