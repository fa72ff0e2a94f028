package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"reveille/tpm"
)

// Label is the volume label of the state partition.
const Label = "REVEILLE"

// folderName is our folder on the state partition.
const folderName = "reveille"

const (
	// scanStep: how often a late disk is looked for; a scan reads a sector or
	// two of each disk.
	scanStep = 250 * time.Millisecond
	// probeTimeout: a disk that spins up takes some 10 s for its first sector.
	// A sick one can take minutes, and must not hold the others.
	probeTimeout = 15 * time.Second
)

// Partition is the mounted state partition.
type Partition struct {
	Device string // "vda", "sda1"
	dir    string
}

// Mount waits until ctx ends for the file system labelled REVEILLE, on a whole
// disk or on a partition, and mounts it on dir. Its error then says what was
// there instead. Two of them are refused: the wrong one would look like a node
// that was never enrolled.
//
// vfat and the character sets it wants (nls_cp437, nls_ascii) must be in the
// kernel or loaded.
func Mount(ctx context.Context, dir string) (*Partition, error) {
	s := newScan("/sys/class/block", "/dev")
	device, err := s.wait(ctx)
	if err != nil {
		return nil, &tpm.Error{Outcome: tpm.Unreadable, Err: err}
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create mount point: %w", err)
	}
	if err := mountFAT(filepath.Join("/dev", device), dir); err != nil {
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
	err := unix.Mount(source, dir, "vfat", flags, options)
	switch {
	case errors.Is(err, unix.EBUSY) && mounted(source, dir):
		return nil // by the agent that we replace
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

// ReadFile reads reveille/<name>, at most limit bytes: a longer file is an
// error. fs.ErrNotExist when there is none.
func (p *Partition) ReadFile(name string, limit int64) ([]byte, error) {
	if !filepath.IsLocal(name) {
		return nil, fmt.Errorf("read %q: not below the state partition", name)
	}
	b, err := readBounded(filepath.Join(p.dir, folderName, name), limit+1)
	if err == nil && int64(len(b)) > limit {
		err = fmt.Errorf("read %s: longer than %d bytes", name, limit)
	}
	return b, err
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

// Unmount writes everything and unmounts, until ctx ends; a disk that hangs
// then keeps a goroutine, not the caller. A file that is still open does not
// hold it: the file system is detached and leaves with that file.
func (p *Partition) Unmount(ctx context.Context) error {
	done := make(chan error, 1)
	go func() {
		unix.Sync()
		err := unix.Unmount(p.dir, 0)
		if errors.Is(err, unix.EBUSY) {
			err = unix.Unmount(p.dir, unix.MNT_DETACH)
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			return fmt.Errorf("unmount state partition: %w", err)
		}
		return nil
	case <-ctx.Done():
		return fmt.Errorf("unmount state partition: %w", context.Cause(ctx))
	}
}

// scan looks through the block devices. A disk is probed in a goroutine of its
// own, for a sick one may not return.
type scan struct {
	sys, dev string
	pending  map[string]bool // probes that did not return in time
	results  chan probe
}

type probe struct {
	device string
	label  string
	err    error
}

func newScan(sys, dev string) *scan {
	return &scan{sys: sys, dev: dev, pending: map[string]bool{}, results: make(chan probe)}
}

// wait scans until there is one state partition, or ctx ends.
func (s *scan) wait(ctx context.Context) (string, error) {
	for {
		found, seen, err := s.once(ctx)
		switch {
		case err == nil && len(found) == 1:
			return found[0], nil
		case err == nil && len(found) > 1:
			err = fmt.Errorf("find state partition: %d file systems are labelled %s: %s; remove all but one", len(found), Label, some(found))
			return "", err
		case err == nil:
			err = fmt.Errorf("find state partition: no FAT file system labelled %s on %d block devices: %s", Label, len(seen), some(seen))
		}
		if sleep(ctx, scanStep) != nil {
			return "", errors.Join(err, context.Cause(ctx))
		}
	}
}

// some shows a few of a list that may be long.
func some(list []string) string {
	const few = 6
	if len(list) > few {
		return strings.Join(list[:few], ", ") + fmt.Sprintf(" and %d more", len(list)-few)
	}
	return strings.Join(list, ", ")
}

// once probes every device; seen says in words what each of the others is.
func (s *scan) once(ctx context.Context) (found, seen []string, err error) {
	devices, err := s.devices()
	if err != nil {
		return nil, nil, err
	}
	started := 0
	for _, d := range devices {
		if s.pending[d] {
			seen = append(seen, d+" does not answer")
			continue
		}
		s.pending[d] = true
		started++
		go func() {
			label, err := probeLabel(filepath.Join(s.dev, d))
			s.results <- probe{d, label, err}
		}()
	}
	timeout := time.NewTimer(probeTimeout)
	defer timeout.Stop()
	for ; started > 0; started-- {
		select {
		case p := <-s.results:
			delete(s.pending, p.device)
			if p.err == nil && p.label == Label {
				found = append(found, p.device)
			} else {
				seen = append(seen, p.String())
			}
		case <-timeout.C:
			return found, seen, nil
		case <-ctx.Done():
			return nil, seen, context.Cause(ctx)
		}
	}
	slices.Sort(found)
	slices.Sort(seen)
	return found, seen, nil
}

func (p probe) String() string {
	switch {
	case errors.Is(p.err, errNotFAT):
		return p.device + " is not FAT"
	case p.err != nil:
		return fmt.Sprintf("%s: %v", p.device, p.err)
	}
	return fmt.Sprintf("%s is labelled %q", p.device, p.label)
}

func probeLabel(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return fatLabel(f)
}

// devices lists block devices that hold something, in the order of their names.
func (s *scan) devices() ([]string, error) {
	entries, err := os.ReadDir(s.sys)
	if err != nil {
		return nil, fmt.Errorf("list block devices: %w", err)
	}
	var out []string
	for _, e := range entries {
		// A floppy drive takes seconds to say that it is empty; RAM disks are new.
		if name := e.Name(); !strings.HasPrefix(name, "fd") && !strings.HasPrefix(name, "ram") && s.sectors(name) > 0 {
			out = append(out, name)
		}
	}
	return out, nil
}

func (s *scan) sectors(name string) int64 {
	b, err := os.ReadFile(filepath.Join(s.sys, name, "size"))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
