package images

import (
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"

	"github.com/klauspost/compress/zstd"
	"github.com/u-root/u-root/pkg/cpio"
)

// Initramfs says what goes into an initramfs. The same content gives the same
// bytes, whoever builds it, when and where.
type Initramfs struct {
	Init    string // the program that becomes /init
	Kernel  Kernel // whose modules
	Modules Set    // which modules; the zero Set takes none
	Files   []File // more files
	Plain   bool   // do not compress: for images that are booted once
}

// File puts a file, or a directory with all below it, from this machine into
// the image. Modes become 0755 or 0644, the owner root.
type File struct {
	Source string
	Target string // path in the image
}

// Report says what came out.
type Report struct {
	Files, Modules int
	Missing        []string // modules of the set that the kernel does not have
	Bytes          int64    // written
	Unpacked       int64    // size of the archive before compression
}

// Write writes the archive, a newc cpio, zstd-compressed unless Plain.
func (s Initramfs) Write(w io.Writer) (Report, error) {
	tree, report, err := s.tree()
	if err != nil {
		return Report{}, err
	}
	out := &counter{w: w}
	archive := &counter{w: out}
	var enc *zstd.Encoder
	if !s.Plain {
		// One goroutine, because the cut into blocks is part of the output. The
		// kernel's decoder takes windows up to 128 MiB; 8 MiB is the least that
		// every zstd decoder has to take (RFC 8878, 3.1.1.1.2).
		enc, err = zstd.NewWriter(out, zstd.WithEncoderConcurrency(1),
			zstd.WithEncoderLevel(zstd.SpeedBestCompression), zstd.WithWindowSize(8<<20))
		if err != nil {
			return Report{}, fmt.Errorf("open compressor: %w", err)
		}
		archive.w = enc
	}
	if err := tree.write(archive); err != nil {
		return Report{}, fmt.Errorf("write archive: %w", err)
	}
	if enc != nil {
		if err := enc.Close(); err != nil {
			return Report{}, fmt.Errorf("write archive: %w", err)
		}
	}
	report.Bytes, report.Unpacked, report.Files = out.n, archive.n, len(tree)
	return report, nil
}

// WriteFile writes the archive to a file, which appears whole or not at all.
func (s Initramfs) WriteFile(name string) (Report, error) {
	f, err := os.CreateTemp(filepath.Dir(name), filepath.Base(name)+".*")
	if err != nil {
		return Report{}, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	report, err := s.Write(f)
	if err != nil {
		return Report{}, err
	}
	if err := f.Chmod(0o644); err != nil {
		return Report{}, err
	}
	if err := f.Close(); err != nil {
		return Report{}, err
	}
	return report, os.Rename(f.Name(), name)
}

// directories that the node mounts on, or expects.
var directories = []string{"dev", "etc", "proc", "run", "sys", "tmp", "var", "mnt"}

func (s Initramfs) tree() (tree, Report, error) {
	t := tree{}
	var report Report
	for _, d := range directories {
		t.add(cpio.Directory(d, 0o755))
	}
	// Before devtmpfs is mounted: the kernel opens /dev/console for PID 1, and Go's
	// runtime opens /dev/null for a standard descriptor that is closed, or dies.
	t.add(cpio.CharDev("dev/console", 0o600, 5, 1))
	t.add(cpio.CharDev("dev/null", 0o666, 1, 3))
	chosen, missing, err := s.Kernel.choose(s.Modules)
	if err != nil {
		return nil, report, err
	}
	report.Modules, report.Missing = len(chosen), missing
	if len(chosen) > 0 {
		t.addModules(path.Join("lib/modules", s.Kernel.Release), chosen, s.Kernel.builtin)
	}
	for _, f := range append([]File{{s.Init, "/init"}}, s.Files...) {
		if err := t.addFile(f); err != nil {
			return nil, report, fmt.Errorf("add %s: %w", f.Source, err)
		}
	}
	return t, report, nil
}

// counter counts what passes through to w.
type counter struct {
	w io.Writer
	n int64
}

func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}
