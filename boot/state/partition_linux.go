package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"reveille/tpm"
)

// Label is the volume label of the state partition.
const Label = "REVEILLE"

// folderName is our folder on the state partition.
const folderName = "reveille"

// Partition is the mounted state partition.
type Partition struct {
	Device string // "vda", "sda1"
	dir    string
}

// Finder looks for the state partition. It is kept from one try to the next,
// for it remembers which disks do not answer.
type Finder struct{ scan *scan }

// NewFinder returns a finder that has not looked yet.
func NewFinder() *Finder { return &Finder{newScan("/sys/class/block", "/dev")} }

// Mount waits until ctx ends for the file system labelled REVEILLE, on a whole
// disk or on a partition, and mounts it on dir. Its error then says what was
// there instead. Two of them are refused: the wrong one would look like a node
// that was never enrolled. A disk that does not answer holds nobody.
//
// vfat and the character sets it wants (nls_cp437, nls_ascii) must be in the
// kernel or loaded. One call at a time.
func (f *Finder) Mount(ctx context.Context, dir string) (*Partition, error) {
	device, err := f.scan.wait(ctx)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create mount point: %w", err)
	}
	if err := mountFAT(f.scan.node(device), dir); err != nil {
		return nil, &tpm.Error{Outcome: tpm.Unreadable, Detail: "mount " + device, Err: err}
	}
	return &Partition{Device: device, dir: dir}, nil
}

// mountFAT mounts read-write, and read-only where the disk is.
//
//   - flush: data goes to the disk soon after a file is closed, so that files of
//     writers that forget fsync (a crash dump) survive the next power cut. The
//     config does not rely on it, and "sync" would write the FAT per cluster.
//   - errors=remount-ro: a broken FAT is not made worse.
//   - utf8=0, codepage and iocharset spelled out: the kernel's defaults differ
//     between distributions, and each needs its own module.
func mountFAT(source, dir string) error {
	const flags = unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOSUID | unix.MS_NOATIME
	const options = "flush,errors=remount-ro,umask=0077,codepage=437,iocharset=ascii,utf8=0,tz=UTC"
	if mounted(source, dir) {
		return nil // by the agent that we replace
	}
	err := unix.Mount(source, dir, "vfat", flags, options)
	switch {
	case errors.Is(err, unix.EROFS), errors.Is(err, unix.EACCES):
		return unix.Mount(source, dir, "vfat", flags|unix.MS_RDONLY, options)
	case errors.Is(err, unix.ENODEV):
		return fmt.Errorf("%w (module vfat not loaded)", err)
	}
	return err
}

// mounted tells whether dir already is a mount point of source.
func mounted(source, dir string) bool {
	b, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 2 && f[0] == source && f[1] == dir {
			return true
		}
	}
	return false
}

// Dir is where the partition is mounted.
func (p *Partition) Dir() string { return p.dir }

// Vault opens the config on this partition. dev is the machine's TPM; it is nil
// when tpm.Open failed, and why is then its error. mode is what the node
// parameters ask for: it decides until the node is enrolled; afterwards it only
// guards against a plain file where none belongs.
func (p *Partition) Vault(dev *tpm.TPM, why error, mode tpm.Mode) *Vault {
	return newVault(newFolder(filepath.Join(p.dir, folderName)), dev, why, mode)
}

// ReadOnly tells whether writes are refused: the disk is read-only, or the
// kernel found the file system broken (errors=remount-ro) since the mount.
func (p *Partition) ReadOnly() (bool, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(p.dir, &st); err != nil {
		return false, fmt.Errorf("ask for state partition: %w", err)
	}
	return st.Flags&unix.ST_RDONLY != 0, nil
}
