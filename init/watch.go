//go:build faults

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"
)

const (
	// lookEvery is how often watch looks at each thread of its parent: a
	// thread that waits for a device does so for seconds.
	lookEvery = 50 * time.Millisecond
	// watchWindow is what one line of watch tells about.
	watchWindow = 5 * time.Second
	// userHz is the unit of processor times in /proc (USER_HZ).
	userHz = 100
)

// watch says every watchWindow what a process took of one processor, and how
// long one of its threads was at most in D state, where nothing can end it, and
// what in the kernel it waited for.
//
// A virtual machine's clock goes on while its host has other work to do, and
// whatever runs in it then is charged for that. So watch does a fixed piece of
// work again and again: how much longer it takes than at best is how much too
// much everything is charged.
func watch(pid int) {
	waits := waits{since: map[string]time.Time{}}
	best, charged, looks := time.Hour, time.Duration(0), 0
	spent, began := processorTime(pid), time.Now()
	for now := range time.Tick(lookEvery) {
		waits.look(pid, now)
		piece := work()
		best, charged, looks = min(best, piece), charged+piece, looks+1
		if now.Sub(began) < watchWindow {
			continue
		}
		total := processorTime(pid)
		load := 100 * (total - spent).Seconds() / now.Sub(began).Seconds()
		slowed := charged.Seconds() / float64(looks) / best.Seconds()
		fmt.Printf("watch: cpu %.1f %% (%.1f %% on a machine slowed %.1f times), longest D %d ms in %s\n",
			load/slowed, load, slowed, waits.longest.Milliseconds(), waits.where)
		spent, began, charged, looks = total, now, 0, 0
		waits.longest, waits.where = 0, ""
	}
}

// work is how long a fixed piece of work took: about 1 ms on an emulated
// processor, so that at best nothing comes between.
func work() time.Duration {
	began, x := time.Now(), uint64(1)
	for range 200_000 {
		x = x*6364136223846793005 + 1442695040888963407
	}
	runtime.KeepAlive(x)
	return max(time.Since(began), 100*time.Microsecond) // no processor is faster, but a clock may say so
}

// waits are the times that a process's threads spend in D state.
type waits struct {
	since   map[string]time.Time // when a thread was first seen in it
	longest time.Duration
	where   string // the kernel's function
}

func (w *waits) look(pid int, now time.Time) {
	threads, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid)) // the pattern is good
	for _, thread := range threads {
		if f := stat(thread + "/stat"); len(f) == 0 || f[0] != "D" {
			delete(w.since, thread)
			continue
		}
		if _, known := w.since[thread]; !known {
			w.since[thread] = now
		}
		if d := now.Sub(w.since[thread]) + lookEvery; d > w.longest {
			where, _ := os.ReadFile(thread + "/wchan") // it may have gone on
			w.longest, w.where = d, string(where)
		}
	}
}

// processorTime is what a process took so far, in user and kernel mode.
func processorTime(pid int) time.Duration {
	f := stat(fmt.Sprintf("/proc/%d/stat", pid))
	if len(f) < 13 {
		return 0
	}
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * time.Second / userHz
}

// stat are the fields of proc_pid_stat(5) from the third, the state, on.
func stat(file string) []string {
	text, _ := os.ReadFile(file) // a thread may just have ended
	_, rest, _ := strings.Cut(string(text), ") ")
	return strings.Fields(rest)
}
