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
//   - Core dumps go through this program, which knows what is wanted of them and
//     how much: a file would be made in the root of the service, by its user, and
//     would be bounded by a limit that the service may change.
func settings(cmdline, program string) []setting {
	s := []setting{{"kernel/panic_on_oops", "1"}, {"kernel/core_pipe_limit", strconv.Itoa(coresAtOnce)}, {"kernel/core_pattern", corePattern(program)}}
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

// noCore keeps the kernel from dumping into a pipe at all; a limit of 0 does not
// (do_coredump, fs/coredump.c). A launcher raises it for a service.
const noCore = 1

// settleKernel makes the settings, and returns what it could not do; each is
// worth a line and none is a reason to stop.
func settleKernel(program string) (problems []error) {
	cmdline, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		problems = append(problems, fmt.Errorf("read kernel command line: %w", err))
	}
	for _, s := range settings(string(cmdline), program) {
		if err := s.apply(); err != nil {
			problems = append(problems, err)
		}
	}
	if err := unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: noCore, Max: unix.RLIM_INFINITY}); err != nil {
		problems = append(problems, fmt.Errorf("turn off core dumps: %w", err))
	}
	// The last to be killed when memory runs out. PID 1, the warden, never is.
	if err := os.WriteFile("/proc/self/oom_score_adj", []byte("-1000"), 0); err != nil {
		problems = append(problems, fmt.Errorf("keep from the OOM killer: %w", err))
	}
	return problems
}
