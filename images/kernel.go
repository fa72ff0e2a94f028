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
	"os"
	"path"
	"path/filepath"
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
