package pid1

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"reveille/boot/proc"
)

// CoreMark is the argument by which this program knows that the kernel started
// it to take a core dump: see core_pattern in settings.
const CoreMark = "core"

const (
	// maxCores bounds all cores that lie there at a time, bytes: the smallest
	// machine's /run is a tmpfs of half its memory.
	maxCores = 64 << 20
	// coresAtOnce is how many dumps the kernel waits for; it skips others.
	coresAtOnce = 4
)

// corePattern has the kernel start this program with the pid of what crashed,
// as the machine counts, whatever namespaces that is in. The kernel waits for
// it, so that /proc/PID tells of which service it is.
func corePattern(program string) string { return fmt.Sprintf("|%s %s %%P", program, CoreMark) }

// KeepCore takes a dump from the kernel. Of what is not a service, or is not
// wanted, it takes nothing; from the bound on, it lets the kernel's next write
// fail, which ends a dump of any size at once. It returns for errors as well:
// there is nobody to tell.
func KeepCore(pid string, dump io.Reader) {
	text, err := os.ReadFile("/proc/" + pid + "/cgroup")
	if err != nil {
		return
	}
	if incarnation, ok := serviceOf(string(text)); ok {
		_ = keepCore(proc.CoreDir, incarnation, dump, maxCores)
	}
}

// serviceOf reads proc_pid_cgroup(5): the incarnation that a process belongs to.
// Below its own cgroup a service may have made others.
func serviceOf(cgroup string) (incarnation string, ok bool) {
	path, found := strings.CutPrefix(strings.TrimSpace(cgroup), "0::/services/")
	incarnation, _, _ = strings.Cut(path, "/")
	return incarnation, found && incarnation != ""
}

func keepCore(dir, incarnation string, dump io.Reader, room int64) error {
	text, err := os.ReadFile(filepath.Join(dir, incarnation+".limit"))
	if err != nil {
		return err
	}
	limit, err := strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
	if err != nil {
		return err
	}
	limit = min(limit, room-taken(dir))
	// The first that crashes is the one to look at.
	f, err := os.OpenFile(filepath.Join(dir, incarnation+".core"), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.LimitReader(dump, max(limit, 0)))
	if n, _ := io.ReadFull(dump, make([]byte, 1)); n > 0 {
		err = errors.Join(err, os.WriteFile(filepath.Join(dir, incarnation+".cut"), nil, 0o600))
	}
	return errors.Join(err, f.Close())
}

// taken is what the cores take that are there already.
func taken(dir string) (size int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error { // what cannot be read takes nothing
		if err == nil {
			if info, err := d.Info(); err == nil && info.Mode().IsRegular() {
				size += info.Size()
			}
		}
		return nil
	})
	return size
}
