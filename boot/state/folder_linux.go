package state

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// diskFolder is a directory of the state partition.
type diskFolder struct{ dir string }

func newFolder(dir string) folder { return diskFolder{dir} }

// read reads at most one byte more than a slot: enough to see that it is longer.
func (d diskFolder) read(name string) ([]byte, error) {
	return readBounded(filepath.Join(d.dir, name), slotSize+1)
}

func readBounded(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}

// create writes under another name and renames, so that under the final name
// there is never anything but the whole content. vfat writes the renamed
// directory entry only when the file is synced again, hence the second sync.
func (d diskFolder) create(name string, content []byte) error {
	if err := os.MkdirAll(d.dir, 0o700); err != nil {
		return err
	}
	path := filepath.Join(d.dir, name)
	f, err := os.OpenFile(path+".new", os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	err = errors.Join(err, f.Sync())
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err == nil {
		err = errors.Join(f.Sync(), syncDir(d.dir), syncDir(filepath.Dir(d.dir)))
	}
	return errors.Join(err, f.Close())
}

// overwrite never truncates: size, clusters and directory entry stay as they
// are, so the data is all that a power cut can tear.
func (d diskFolder) overwrite(name string, content []byte) ([]byte, error) {
	f, err := os.OpenFile(filepath.Join(d.dir, name), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	if _, err := f.WriteAt(content, 0); err != nil {
		return nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	// Out of the page cache, to read back what the disk has. Advice only.
	_ = unix.Fadvise(int(f.Fd()), 0, int64(len(content)), unix.FADV_DONTNEED)
	back := make([]byte, len(content))
	if _, err := f.ReadAt(back, 0); err != nil {
		return nil, fmt.Errorf("read back: %w", err)
	}
	return back, nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
