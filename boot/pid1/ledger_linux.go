package pid1

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"
)

// ledger counts the forced reboots in a row on the state partition. count and
// set may wait for the disk; ask calls them.
type ledger struct {
	mount  string // where the partition is mounted
	name   string // the file, below it
	asking *atomic.Bool
}

func newLedger(mount, name string) ledger { return ledger{mount, name, new(atomic.Bool)} }

// forced is the machine's ledger; the agent mounts the partition (boot).
var forced = newLedger("/run/reveille/state", "reveille/reboots")

// ledgerFormat has a fixed length, so that a new count overwrites the old one
// within one sector, which a disk writes whole or not at all.
const ledgerFormat = "forced reboots in a row: %6d\n"

// count is the number of forced reboots before this boot; 0 if none was ever
// written. What is no count is none: the file is ours alone.
func (l ledger) count() (int, error) {
	if err := l.mounted(); err != nil {
		return 0, err
	}
	f, err := os.Open(filepath.Join(l.mount, l.name))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read count of forced reboots: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, 128))
	if err != nil {
		return 0, fmt.Errorf("read count of forced reboots: %w", err)
	}
	var n int
	if _, err := fmt.Sscanf(string(b), ledgerFormat, &n); err != nil || n < 0 {
		return 0, nil
	}
	return n, nil
}

// set writes the count and returns when it is durable.
func (l ledger) set(n int) error {
	if err := l.mounted(); err != nil {
		return err
	}
	path := filepath.Join(l.mount, l.name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return fmt.Errorf("write count of forced reboots: %w", err)
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return fmt.Errorf("write count of forced reboots: %w", err)
	}
	_, err = fmt.Fprintf(f, ledgerFormat, min(n, 999999))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write count of forced reboots: %w", err)
	}
	return nil
}

var errNoPartition = errors.New("the state partition is not mounted")

// mounted keeps the count off the memory below the mount point.
func (l ledger) mounted() error {
	if !isMountPoint(l.mount) {
		return errNoPartition
	}
	return nil
}

// diskPatience is how long a disk may take for one small file: a slow USB
// stick syncs within 2-4 s.
const diskPatience = 5 * time.Second

var errNoAnswer = errors.New("no answer of the disk")

// ask runs count or set, and stops waiting after diskPatience with errNoAnswer.
// One that is still not answered holds a thread; so there is no second question
// until then.
func (l ledger) ask(f func() (int, error)) (int, error) {
	if !l.asking.CompareAndSwap(false, true) {
		return 0, fmt.Errorf("%w to the last question", errNoAnswer)
	}
	return bounded(diskPatience, func() (int, error) {
		defer l.asking.Store(false)
		return f()
	})
}

// put makes set a question.
func (l ledger) put(n int) func() (int, error) {
	return func() (int, error) { return n, l.set(n) }
}

// bounded runs f, which may wait for a disk, and stops waiting after d with
// errNoAnswer. What does not answer goes on being a thread: nobody may try that
// again and again.
func bounded[T any](d time.Duration, f func() (T, error)) (T, error) {
	type answer struct {
		v   T
		err error
	}
	ch := make(chan answer, 1)
	go func() {
		v, err := f()
		ch <- answer{v, err}
	}()
	select {
	case a := <-ch:
		return a.v, a.err
	case <-time.After(d):
		var none T
		return none, fmt.Errorf("%w within %s", errNoAnswer, d)
	}
}

// force counts a forced reboot that is about to be, if the machine has been up
// long enough for it; at is the uptime. Its error says that the count is not
// kept; then only at tells a storm from a single death.
func (l ledger) force(at time.Duration) (now bool, wait time.Duration, err error) {
	n, err := l.ask(l.count)
	if err != nil {
		return at >= uncounted, max(uncounted-at, 0), err
	}
	if wait = earliest(n) - at; wait > 0 {
		return false, wait, nil
	}
	if _, err = l.ask(l.put(n + 1)); err != nil {
		return at >= uncounted, max(uncounted-at, 0), err
	}
	return true, 0, nil
}
