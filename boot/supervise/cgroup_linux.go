package supervise

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"reveille/boot/proc"
	"reveille/boot/service"
)

// Cgroups are the services' folders of the one cgroup v2 hierarchy, one an
// incarnation. See Linux Documentation/admin-guide/cgroup-v2.rst.
type Cgroups struct {
	Root string // where cgroup2 is mounted
}

// controllers enforce limits; a kernel may have been built without one, which
// then is an error of the service that needs it.
var controllers = []string{"memory", "cpu", "pids"}

func (c Cgroups) services() string { return filepath.Join(c.Root, "services") }

// Path is the folder of an incarnation.
func (c Cgroups) Path(ref service.Ref) string {
	return filepath.Join(c.services(), fmt.Sprintf("%s-%d", ref.Service, ref.Incarnation))
}

// Prepare makes the folder that all services have in common.
func (c Cgroups) Prepare() error {
	if err := os.MkdirAll(c.services(), 0o755); err != nil {
		return fmt.Errorf("prepare cgroups: %w", err)
	}
	for _, dir := range []string{c.Root, c.services()} {
		for _, name := range controllers {
			// Absent, or a threaded one: Make finds the limit's file missing.
			_ = os.WriteFile(filepath.Join(dir, "cgroup.subtree_control"), []byte("+"+name), 0)
		}
	}
	return nil
}

// Make makes an incarnation's folder with its limits.
func (c Cgroups) Make(ref service.Ref, limits service.Limits) error {
	dir := c.Path(ref)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make cgroup: %w", err)
	}
	settings := []struct{ file, value string }{}
	if limits.Memory > 0 {
		// The whole service ends at its limit, not the one process that was
		// largest, and swap is no way around it.
		settings = append(settings, struct{ file, value string }{"memory.max", fmt.Sprint(limits.Memory)},
			struct{ file, value string }{"memory.oom.group", "1"})
	}
	if limits.CPU > 0 {
		settings = append(settings, struct{ file, value string }{"cpu.max", fmt.Sprintf("%d %d", max(int(limits.CPU*cpuPeriod), 1000), cpuPeriod)})
	}
	if limits.PIDs > 0 {
		settings = append(settings, struct{ file, value string }{"pids.max", fmt.Sprint(limits.PIDs)})
	}
	for _, s := range settings {
		if err := os.WriteFile(filepath.Join(dir, s.file), []byte(s.value), 0); err != nil {
			return fmt.Errorf("limit cgroup: %w", err)
		}
	}
	return nil
}

// cpuPeriod is the kernel's default, microseconds; the least quota is 1 ms.
const cpuPeriod = 100_000

// Kill kills all that is in there; it returns before they are dead.
func (c Cgroups) Kill(ref service.Ref) error {
	err := os.WriteFile(filepath.Join(c.Path(ref), "cgroup.kill"), []byte("1"), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// Empty tells whether nothing lives in there.
func (c Cgroups) Empty(ref service.Ref) bool {
	text, err := os.ReadFile(filepath.Join(c.Path(ref), "cgroup.events"))
	return errors.Is(err, fs.ErrNotExist) || err == nil && bytes.Contains(text, []byte("populated 0"))
}

// AwaitEmpty waits for Empty until ctx ends: the kernel notifies of it.
func (c Cgroups) AwaitEmpty(ctx context.Context, ref service.Ref) bool {
	for !c.Empty(ref) {
		if ctx.Err() != nil {
			return false
		}
		c.awaitChange(ref)
	}
	return true
}

// awaitChange waits for a change of cgroup.events, or a short while: what
// happened between the look and the wait is seen after it.
func (c Cgroups) awaitChange(ref service.Ref) {
	f, err := os.Open(filepath.Join(c.Path(ref), "cgroup.events"))
	if err != nil {
		return // gone
	}
	defer f.Close()
	if text := make([]byte, 64); true {
		if n, _ := f.Read(text); bytes.Contains(text[:n], []byte("populated 0")) {
			return
		}
	}
	_, _ = unix.Poll([]unix.PollFd{{Fd: int32(f.Fd()), Events: unix.POLLPRI}}, int(lookAgain/time.Millisecond)) // ends, one way or other
}

const lookAgain = 50 * time.Millisecond

// Remove removes the folder, and those that the service made below it.
func (c Cgroups) Remove(ref service.Ref) error {
	dir := c.Path(ref)
	var below []string
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error { // what cannot be read cannot be removed: Rmdir says it
		if err == nil && d.IsDir() {
			below = append(below, path)
		}
		return nil
	})
	for i := len(below) - 1; i >= 0; i-- {
		if err := unix.Rmdir(below[i]); err != nil && err != unix.ENOENT {
			return fmt.Errorf("remove cgroup %s: %w", filepath.Base(below[i]), err)
		}
	}
	return nil
}

// Processes are those in there, below it too, by name: "sleep (312)". At most
// limit are named, and all are counted.
func (c Cgroups) Processes(ref service.Ref, limit int) (names []string, total int) {
	_ = filepath.WalkDir(c.Path(ref), func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil // it is going away
		}
		text, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for pid := range strings.FieldsSeq(string(text)) {
			if total++; len(names) < limit {
				name, _ := os.ReadFile("/proc/" + pid + "/comm")
				names = append(names, fmt.Sprintf("%s (%s)", strings.TrimSpace(string(name)), pid))
			}
		}
		return nil
	})
	return names, total
}

// Events are the counts of what its limits did: "memory.events oom_kill 1".
func (c Cgroups) Events(ref service.Ref) (lines []string) {
	for _, file := range []string{"memory.events", "pids.events"} {
		for _, e := range c.events(ref, file) {
			if e.count > 0 {
				lines = append(lines, fmt.Sprintf("%s: %s %d", file, e.name, e.count))
			}
		}
	}
	if peak, err := os.ReadFile(filepath.Join(c.Path(ref), "memory.peak")); err == nil {
		lines = append(lines, "memory.peak: "+strings.TrimSpace(string(peak)))
	}
	return lines
}

type event struct {
	name  string
	count uint64
}

func (c Cgroups) events(ref service.Ref, file string) (all []event) {
	text, _ := os.ReadFile(filepath.Join(c.Path(ref), file)) // no controller: no events
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if n, err := strconv.ParseUint(value, 10, 64); err == nil {
			all = append(all, event{name, n})
		}
	}
	return all
}

// OutOfMemory words that an exit was the OOM killer's doing, empty if it was
// not: what it killed in there may have been another process, long ago.
func (c Cgroups) OutOfMemory(ref service.Ref, exit proc.Exit, limits service.Limits) string {
	if exit.Signal != int(unix.SIGKILL) {
		return ""
	}
	counts := map[string]uint64{}
	for _, e := range c.events(ref, "memory.events") {
		counts[e.name] = e.count
	}
	switch {
	case counts["oom_kill"] == 0:
		return ""
	case counts["oom"] > 0 && limits.Memory > 0:
		return fmt.Sprintf("out of memory, its limit is %s", bytesText(limits.Memory))
	}
	return "the machine was out of memory"
}

func bytesText(n uint64) string {
	for _, unit := range []struct {
		size uint64
		name string
	}{{1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if n >= unit.size && n%unit.size == 0 {
			return fmt.Sprintf("%d %s", n/unit.size, unit.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
