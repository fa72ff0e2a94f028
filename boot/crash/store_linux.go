package crash

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	// Dir is our folder on the mounted state partition.
	Dir = "/run/reveille/state/reveille/crash"

	// slots is how many records a disk keeps: a loop of crashes restarts the
	// machine after ten, and its first and last records tell the same.
	slots = 8
	// slotSize is the size of one file, bytes. Eight are 2 MiB, on any disk.
	slotSize = MaxRecord + orderSize
	// reserve is what Prepare leaves free, bytes: the sealed config and the
	// network settings live on the same disk, in files of 64 KiB, and must
	// find room when they are first written after a crash.
	reserve = 1 << 20
	// cleared is what removing a record overwrites: the header, in one sector.
	cleared = 512
)

// Store is the records on the state partition: preallocated files that are
// overwritten in place. On FAT that is the one way to write that needs neither
// directory nor allocation table to change with the data, so a record is
// durable with the one fsync that follows it, and no cut of the power harms
// another. A record that was cut off has a wrong checksum, and is none.
type Store struct {
	dir   string
	names [slots]string // the id each slot holds; empty: free
	order [slots]uint64 // of that record among all that ever were; 0: unknown
	ready [slots]bool   // the file has its size
	free  func(dir string) (uint64, error)
}

// ErrNearlyFull: the disk has no room for all slots and what else lives there.
var ErrNearlyFull = errors.New("the disk is nearly full")

// OpenStore reads what dir holds, oldest first. A folder that does not exist
// yet holds nothing. It writes nothing. Its error is the first of perhaps many.
func OpenStore(dir string) (*Store, []Stored, error) {
	s := &Store{dir: dir, free: freeBytes}
	var all []Stored
	var errs []error
	for i := range slots {
		raw, order, err := s.read(i)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, ErrBlank), errors.Is(err, ErrCorrupt):
			continue // a slot without a record is a free one
		case err != nil:
			errs = append(errs, fmt.Errorf("read crash record: %w", err))
			continue
		}
		if st, err := Decode(raw); err == nil {
			s.names[i], s.order[i] = st.ID, orderOf(order, st.ID)
			all = append(all, st)
		}
	}
	slices.SortStableFunc(all, func(a, b Stored) int {
		return cmp.Or(cmp.Compare(s.order[s.slotOf(a.ID)], s.order[s.slotOf(b.ID)]), a.Time.Compare(b.Time))
	})
	return s, all, cmp.Or(errs...)
}

func (s *Store) path(i int) string { return filepath.Join(s.dir, fmt.Sprintf("crash.%d", i)) }

// read returns the record's bytes and its slot's last sector, and notes whether
// the file has its size. It reads no more: eight whole files are 2 MiB of
// init's memory.
func (s *Store) read(i int) (raw, order []byte, err error) {
	f, err := os.Open(s.path(i))
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, err
	}
	s.ready[i] = info.Size() == slotSize
	head := make([]byte, headerSize)
	if _, err := f.ReadAt(head, 0); errors.Is(err, io.EOF) {
		return nil, nil, ErrBlank
	} else if err != nil {
		return nil, nil, err
	}
	n, err := lengthOf(head)
	if err != nil {
		return nil, nil, err
	}
	raw, order = make([]byte, n), make([]byte, orderSize)
	if _, err := f.ReadAt(raw, 0); err != nil && !errors.Is(err, io.EOF) { // cut off: Decode sees it
		return nil, nil, err
	}
	_, _ = f.ReadAt(order, MaxRecord) // what cannot be read orders nothing
	return raw, order, nil
}

// Prepare makes the files that are missing or were cut short, while the disk
// keeps 1 MiB free for others; ErrNearlyFull when it would not. Its error says
// why there are not all; those that are there serve.
func (s *Store) Prepare() error {
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return fmt.Errorf("prepare crash records: %w", err)
	}
	made := false
	var zeros []byte
	var err error
	for i := range slots {
		if s.ready[i] {
			continue
		}
		if zeros == nil {
			zeros = make([]byte, slotSize)
		}
		if err = s.extend(i, zeros); err != nil {
			err = fmt.Errorf("prepare crash record %d of %d: %w", i+1, slots, err)
			break
		}
		s.ready[i], made = true, true
	}
	if !made {
		return err
	}
	// The new entries, in all folders that may be new.
	return cmp.Or(err, syncDir(s.dir), syncDir(filepath.Dir(s.dir)), syncDir(filepath.Dir(filepath.Dir(s.dir))))
}

// extend gives a slot its size, with zeros after what it has, or leaves it as
// it was.
func (s *Store) extend(i int, zeros []byte) error {
	size := int64(0)
	info, err := os.Stat(s.path(i))
	if err == nil {
		size = info.Size()
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err // zeros would go over what it has
	}
	if err := s.roomFor(slotSize - size); err != nil {
		return err
	}
	f, err := os.OpenFile(s.path(i), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	if size < slotSize {
		_, err = f.WriteAt(zeros[size:], size)
	}
	if err = cmp.Or(err, f.Sync()); err != nil && size < slotSize {
		// What it took belongs to others; if this fails too, err says why.
		_ = f.Truncate(size)
	}
	return cmp.Or(err, f.Close())
}

// roomFor asks whether a file may grow by n bytes.
func (s *Store) roomFor(n int64) error {
	if n <= 0 {
		return nil
	}
	free, err := s.free(s.dir)
	if err != nil {
		return err
	}
	if free < uint64(n)+reserve {
		return fmt.Errorf("%w: %d KiB free", ErrNearlyFull, free>>10)
	}
	return nil
}

// freeBytes is what statfs(2) says of the disk that dir is on.
func freeBytes(dir string) (uint64, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, &os.PathError{Op: "statfs", Path: dir, Err: err}
	}
	return st.Bavail * uint64(st.Bsize), nil
}

// errFull: no slot is free, and the caller named none to give way.
var errFull = errors.New("no room for another record")

// Put writes a record, as the newest, and returns when it is durable: into a free slot, else
// over the record with the id oldest. A slot that refuses is passed over: a bad
// sector in one must not keep records out of the others.
func (s *Store) Put(raw []byte, oldest string) error {
	err := errFull
	id, order := ID(raw), slices.Max(s.order[:])+1
	for _, i := range s.places(id, oldest) {
		s.names[i], s.order[i] = "", 0
		if err = s.overwrite(i, chunk{0, raw}, chunk{MaxRecord, encodeOrder(order, id)}); err == nil {
			s.names[i], s.order[i] = id, order
			return nil
		}
	}
	return fmt.Errorf("write crash record: %w", err)
}

// places are the slots for a record, the best first: where it is already, the
// free ones, that of the oldest.
func (s *Store) places(id, oldest string) []int {
	if i := s.find(id); i >= 0 {
		return []int{i}
	}
	var all []int
	for i := range slots {
		if s.ready[i] && s.names[i] == "" {
			all = append(all, i)
		}
	}
	if i := s.find(oldest); i >= 0 && oldest != "" {
		all = append(all, i)
	}
	return all
}

// Slots is how many records there is room for.
func (s *Store) Slots() (n int) {
	for _, ready := range s.ready {
		if ready {
			n++
		}
	}
	return n
}

// Holds tells whether the record is on the disk.
func (s *Store) Holds(id string) bool { return id != "" && s.find(id) >= 0 }

// slotOf returns the slot that holds a record, which one does.
func (s *Store) slotOf(id string) int { return slices.Index(s.names[:], id) }

// find returns the ready slot with this id, or -1.
func (s *Store) find(id string) int {
	for i := range slots {
		if s.ready[i] && s.names[i] == id {
			return i
		}
	}
	return -1
}

// Remove frees the slot of a record; one that is not there is removed.
func (s *Store) Remove(id string) error {
	i := s.find(id)
	if i < 0 || id == "" {
		return nil
	}
	if err := s.overwrite(i, chunk{0, make([]byte, cleared)}); err != nil {
		return fmt.Errorf("remove crash record %s: %w", id, err)
	}
	s.names[i] = "" // its number stays taken: the next one is higher
	return nil
}

// chunk is bytes at an offset of a file.
type chunk struct {
	at int64
	b  []byte
}

// overwrite never truncates: size, clusters and directory entry stay.
func (s *Store) overwrite(i int, chunks ...chunk) error {
	return overwrite(s.path(i), chunks...)
}

func overwrite(path string, chunks ...chunk) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	for _, c := range chunks {
		if err == nil {
			_, err = f.WriteAt(c.b, c.at)
		}
	}
	// fdatasync: nothing but data has changed.
	return cmp.Or(err, unix.Fdatasync(int(f.Fd())), f.Close())
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return cmp.Or(d.Sync(), d.Close())
}
