package pid1

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// setting is a file of /proc/sys and what to write to it.
type setting struct{ name, value string }

// settings are made before the first process is started.
//
//   - A kernel that panics restarts the machine after 10 s, in which a person
//     can read why, unless the command line says otherwise. One that oopses is
//     not trusted to go on: what it held is held for ever.
//   - Core dumps, if a service raises its limit from init's 0, are files below
//     /run, one a program: the default is the root directory, which is memory
//     as well but grows with every process id. A pipe to a helper would be a
//     process that init does not know, started by the kernel at a bad moment.
func settings(cmdline string) []setting {
	s := []setting{{"kernel/panic_on_oops", "1"}, {"kernel/core_pattern", "/run/core.%e"}, {"kernel/core_uses_pid", "0"}}
	return append(s, panicSetting(cmdline, 0)...)
}

// panicSetting is how long a kernel that panics waits until it restarts the
// machine, after so many forced reboots in a row; none where the command line
// says it.
func panicSetting(cmdline string, forced int) []setting {
	for word := range strings.FieldsSeq(cmdline) {
		if strings.HasPrefix(word, "panic=") {
			return nil
		}
	}
	return []setting{{"kernel/panic", strconv.Itoa(max(10, int(earliest(forced)/time.Second)))}}
}

func (s setting) apply() error {
	if err := os.WriteFile("/proc/sys/"+s.name, []byte(s.value), 0); err != nil {
		return fmt.Errorf("set %s: %w", s.name, err)
	}
	return nil
}

// maxCore bounds a core dump, bytes: two of them fit into the smallest
// machine's /run, a tmpfs of half its memory.
const maxCore = 64 << 20

// settleKernel makes the settings, and returns what it could not do; each is
// worth a line and none is a reason to stop.
func settleKernel() (problems []error) {
	cmdline, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		problems = append(problems, fmt.Errorf("read kernel command line: %w", err))
	}
	for _, s := range settings(string(cmdline)) {
		if err := s.apply(); err != nil {
			problems = append(problems, err)
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 0, Max: maxCore}); err != nil {
		problems = append(problems, fmt.Errorf("bound core dumps: %w", err))
	}
	// The last to be killed when memory runs out. PID 1, the warden, never is.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0); err != nil {
		problems = append(problems, fmt.Errorf("keep from the OOM killer: %w", err))
	}
	return problems
}
