package pid1

import (
	"os"
	"strconv"
	"strings"

	"reveille/boot/proc"
)

// oomKills is how many processes the kernel has killed for want of memory since
// boot (oom_kill in /proc/vmstat, mm/vmstat.c), 0 if it does not tell.
func oomKills() (n uint64) {
	text, err := os.ReadFile("/proc/vmstat")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "oom_kill "); ok {
			n, _ = strconv.ParseUint(strings.TrimSpace(v), 10, 64) // no number: it does not tell
		}
	}
	return n
}

// starved words a death by SIGKILL, which leaves no words of its own, while the
// kernel was killing for want of memory; empty for any other.
func starved(e proc.Exit, kills uint64) string {
	if e.Signal != 9 || kills == 0 {
		return ""
	}
	return e.String() + ": the kernel was out of memory"
}
