package pid1

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"reveille/boot/crash"
	"reveille/boot/proc"
	"reveille/console"
)

// recordDisk is where records go: the state partition, which the agent mounts
// when it can, and the memory that a kernel may keep over a warm reset.
type recordDisk struct {
	dir      string // crash.Dir
	mounted  func() bool
	pstore   string // "/sys/fs/pstore"
	pmsg     string // "/dev/pmsg0"
	watchdog string // a pattern: "/sys/class/watchdog/*/bootstatus"
	build    string
	missing  time.Time // when a partition that is not there by then is missed

	// Of the one goroutine that works.
	store   *crash.Store // nil until the partition is there
	entry   crash.Entry  // what stands in the journal of this boot
	missed  bool         // there was no partition for a while
	read    bool         // pstore is in harvest
	harvest crash.Harvest
	found   []crash.Stored // what pstore had, for the verdict
	trouble string         // with the disk, said once
	few     bool           // slots, said once
}

func newRecordDisk(build string) recordDisk {
	return recordDisk{
		dir: crash.Dir, mounted: stateMounted, build: build, missing: time.Now().Add(missAfter),
		pstore: "/sys/fs/pstore", pmsg: "/dev/pmsg0", watchdog: "/sys/class/watchdog/*/bootstatus",
	}
}

// stateMounted tells whether the state partition is where the agent mounts
// it: a folder on another device than the one above it.
func stateMounted() bool {
	var at, above unix.Stat_t
	point := filepath.Dir(filepath.Dir(crash.Dir))
	return unix.Stat(point, &at) == nil && unix.Stat(filepath.Dir(point), &above) == nil && at.Dev != above.Dev
}

// bootID is the kernel's random name of this boot (drivers/char/random.c).
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(id))
}

const (
	// lookForDisk is how often an init whose agent has not said so looks
	// whether the partition is mounted: two stat(2).
	lookForDisk = 5 * time.Second
	// missAfter is when a state partition is missed that is not mounted yet: the
	// agent gives a slow USB disk 10 s after its first look.
	missAfter = 45 * time.Second
	// tryDisk is how long a disk that refused has until it is asked again.
	tryDisk = time.Minute
	// nothingToDo is a wait that only a wake ends.
	nothingToDo = 24 * time.Hour
)

// work does what there is to do, and returns when to look again.
func (r *recorder) work() time.Duration {
	r.writePmsg()
	d := &r.disk
	if d.store == nil {
		if !d.mounted() {
			r.missDisk()
			return lookForDisk
		}
		r.openDisk()
	}
	if err := r.writeDisk(); err != nil {
		r.complain(err)
		return tryDisk
	}
	return nothingToDo
}

// complain says once what is wrong with the disk: it may stay so for a year.
func (r *recorder) complain(err error) {
	if r.disk.trouble == "" {
		r.say(console.Warn, "%v; crash records are kept in memory only, going on", err)
	}
	r.disk.trouble = err.Error()
}

// openDisk takes over what boots before this one left, and says how the last
// of them ended.
func (r *recorder) openDisk() {
	d := &r.disk
	store, found, err := crash.OpenStore(d.dir)
	if err != nil {
		r.say(console.Warn, "%v, going on without it", err)
	}
	d.store = store
	r.readPstore()
	r.takeOver(found)
	entry, err := crash.Journal{Dir: d.dir}.Read()
	r.judge(crash.Evidence{Journal: entry, Err: err, Pending: found})
	d.found = nil
}

// begin puts this boot into the journal, in place of the one before it, and
// what init thinks of its future.
func (r *recorder) begin() error {
	d := &r.disk
	r.mu.Lock()
	now := crash.Entry{BootID: r.bootID(), Build: d.build, Doomed: r.doomed}
	r.mu.Unlock()
	if d.entry == now {
		return nil
	}
	if err := (crash.Journal{Dir: d.dir}).Write(now); err != nil {
		return err
	}
	d.entry = now
	return nil
}

// takeOver puts what was found before what this boot has had so far.
func (r *recorder) takeOver(found []crash.Stored) {
	r.mu.Lock()
	defer r.mu.Unlock()
	own := r.pending
	r.pending = nil
	for _, st := range found {
		r.insert(&pendingRecord{Stored: st, saved: true, pmsg: true})
	}
	for _, st := range r.disk.harvest.Records {
		if !slices.ContainsFunc(found, st.SameDeath) { // else pmsg had a shorter copy
			r.insert(&pendingRecord{Stored: st, pmsg: true})
		}
	}
	for _, p := range own {
		if !slices.ContainsFunc(found, p.SameDeath) { // else pmsg was read before the disk came
			r.insert(p)
		}
	}
}

// writeDisk brings the disk to what memory says.
func (r *recorder) writeDisk() error {
	// A full disk may still have room for some.
	errs := []error{r.begin(), r.prepare(), r.removeGone()}
	for _, p := range r.unsaved() {
		errs = append(errs, r.save(p))
	}
	errs = append(errs, r.removeGone()) // what went while it was written
	r.clearPstore()
	return cmp.Or(errs...) // the others will say the same
}

// prepare makes the slots. Fewer of them than there should be are no trouble,
// none are.
func (r *recorder) prepare() error {
	err := r.disk.store.Prepare()
	if !errors.Is(err, crash.ErrNearlyFull) || r.disk.store.Slots() == 0 {
		return err
	}
	if !r.disk.few {
		r.say(console.Warn, "%v; going on with as many as there are", err)
	}
	r.disk.few = true
	return nil
}

func (r *recorder) unsaved() []*pendingRecord {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.pending), func(p *pendingRecord) bool { return p.saved })
}

// save writes a record. The cluster may have it before the disk has: then it
// was dropped when it was not on the disk yet, and has to go from there now.
func (r *recorder) save(p *pendingRecord) error {
	if err := r.disk.store.Put(p.Raw, r.giveWay()); err != nil {
		return err
	}
	r.mu.Lock()
	p.saved = true
	if r.find(p.ID) == nil {
		r.gone = append(r.gone, p.ID)
	}
	r.mu.Unlock()
	r.disk.trouble = ""
	// Ahead of lesser lines: an operator may wait for it to cut the power.
	r.say(console.Stage, "crash record %s is on disk: %s", p.ID, p.Line())
	return nil
}

// removeGone takes off the disk what is gone; what the disk would not let go
// stays gone, and is tried again.
func (r *recorder) removeGone() error {
	r.mu.Lock()
	gone := r.gone
	r.gone = nil
	r.mu.Unlock()
	var left []string
	var errs []error
	for _, id := range gone {
		if err := r.disk.store.Remove(id); err != nil {
			left, errs = append(left, id), append(errs, err)
		}
	}
	r.mu.Lock()
	r.gone = append(left, r.gone...)
	r.mu.Unlock()
	return cmp.Or(errs...)
}

// giveWay names the record that a new one may overwrite on a full disk: one
// that is gone and could not be removed, else the oldest that is there: where
// the disk had room for few slots, memory knows of more records than it holds.
func (r *recorder) giveWay() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, id := range r.gone {
		if r.disk.store.Holds(id) {
			return id
		}
	}
	for _, service := range []bool{true, false} {
		for _, p := range r.pending {
			if (p.Kind == crash.Service) == service && r.disk.store.Holds(p.ID) {
				return p.ID
			}
		}
	}
	return ""
}

// writePmsg puts each record of this boot into the kernel's own crash storage,
// where the machine has that: it is there before any disk.
func (r *recorder) writePmsg() {
	r.mu.Lock()
	var todo []*pendingRecord
	for _, p := range r.pending {
		if !p.pmsg {
			p.pmsg = true
			todo = append(todo, p)
		}
	}
	r.mu.Unlock()
	for _, p := range todo {
		if err := writePmsg(r.disk.pmsg, p.Short(maxPmsg)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.say(console.Warn, "write crash record to pstore: %v, going on without it", err)
		}
	}
}

// maxPmsg is what a record may take of pmsg: ramoops gives it 64 KiB as a
// rule, and one that is larger than the whole would be cut at its head.
const maxPmsg = 32 << 10

func writePmsg(path string, raw []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.Write(raw) // one write is one message
	return errors.Join(err, f.Close())
}

// endBoot writes that this boot came to an ordered end.
func (d *recordDisk) endBoot(r *recorder, why proc.Restart) {
	if d.store == nil {
		return
	}
	err := crash.Journal{Dir: d.dir}.Write(crash.Entry{
		BootID: r.bootID(), Build: d.build, Clean: true, Forced: why.Forced,
		Reason: fmt.Sprintf("%s: %s", why.How, why.Reason),
	})
	if err != nil && d.trouble == "" {
		r.say(console.Warn, "%v; the next boot will take this for a power loss", err)
	}
}
