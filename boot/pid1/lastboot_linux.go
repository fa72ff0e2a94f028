package pid1

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"reveille/boot/crash"
	"reveille/boot/proc"
	"reveille/console"
)

// How the boot before this one ended: what is left of it, and the verdict.

// missDisk says, once, that there is no disk, and does what can be done without:
// the kernel's storage is read, and given back when the cluster has what it held.
func (r *recorder) missDisk() {
	d := &r.disk
	if !d.missed && time.Now().Before(d.missing) {
		return
	}
	if !d.missed {
		d.missed = true
		r.say(console.Warn, "no state partition so far; crash records are kept in memory only, and no boot knows how this one ends; going on")
		r.readPstore()
		r.takeOver(nil)
		r.judge(crash.Evidence{Err: crash.ErrNoDisk})
	}
	r.clearPstore()
}

// readPstore reads what the kernel kept, the first time it is called.
func (r *recorder) readPstore() {
	d := &r.disk
	if d.read {
		return
	}
	d.read = true
	var err error
	if d.harvest, err = crash.ReadPstore(os.DirFS(d.pstore)); err != nil {
		r.say(console.Warn, "%v, going on without it", err)
	}
	d.found = d.harvest.Records
}

// judge says how the boot before this one ended. A disk that comes late may
// tell more.
func (r *recorder) judge(e crash.Evidence) {
	e.Harvested, e.Watchdog = r.disk.found, watchdogFired(r.disk.watchdog)
	v := crash.Judge(e)
	if old := r.verdict; old != nil && (v.End == old.End || v.End == crash.Unknown) {
		r.judged(*old) // with a disk now
		return
	}
	level := console.Warn
	if v.End == crash.Clean || v.End == crash.Unknown && (errors.Is(e.Err, crash.ErrBlank) || errors.Is(e.Err, crash.ErrNoDisk)) {
		level = console.Info // for a disk that is not there, there is a warning
	}
	r.say(level, "%s", v)
	r.mu.Lock()
	r.verdict = &v
	r.mu.Unlock()
	r.judged(v)
}

// clearPstore gives the kernel its storage back, once what it held is safe or
// at the cluster: the storage is small, and what is there stays there.
func (r *recorder) clearPstore() {
	h := &r.disk.harvest
	r.mu.Lock()
	for _, st := range h.Records {
		if p := r.find(st.ID); p != nil && !p.saved {
			r.mu.Unlock()
			return
		}
	}
	r.mu.Unlock()
	for _, name := range h.Files {
		if err := os.Remove(filepath.Join(r.disk.pstore, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			r.say(console.Warn, "clear pstore: %v; the same is read again at the next boot", err)
			break
		}
	}
	*h = crash.Harvest{}
}

// watchdogFired tells whether a watchdog says that it reset the machine
// (WDIOF_CARDRESET in the driver's bootstatus, include/uapi/linux/watchdog.h).
func watchdogFired(pattern string) bool {
	const cardReset = 0x20
	paths, _ := filepath.Glob(pattern) // its only error is that of a bad pattern
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			continue // this driver does not tell
		}
		status, err := strconv.ParseUint(strings.TrimSpace(string(text)), 0, 32)
		if err == nil && status&cardReset != 0 {
			return true
		}
	}
	return false
}

// lastBoot is what the agent may know of it.
func (r *recorder) lastBoot(context.Context, proc.Nothing) (proc.LastBoot, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.verdict == nil {
		return proc.LastBoot{}, nil
	}
	return proc.LastBoot{End: string(r.verdict.End), Reason: r.verdict.Text}, nil
}

// previous is how the boot before this one ended, empty while that is unknown.
func (r *recorder) previous() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.verdict == nil {
		return ""
	}
	return r.verdict.Told()
}
