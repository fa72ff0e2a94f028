//go:build faults

package main

import (
	"bufio"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// extra runs what only tests ask for: `init flood BYTES` writes that much,
// `init watch` tells how its parent, init, fares, `init deaf` does not obey
// SIGTERM, nor does `init frozen`, `init killer KILLS` kills the agent, `init
// bystander` lives.
func extra(args []string) bool {
	switch {
	case len(args) == 3 && args[1] == "flood":
		return flood(args[2])
	case len(args) == 3 && args[1] == "killer":
		return killer(args[2])
	case len(args) == 2 && args[1] == "bystander":
		bystander()
	case len(args) == 2 && args[1] == "watch":
		watch(os.Getppid())
	case len(args) == 2 && (args[1] == "deaf" || args[1] == "frozen"):
		heard := make(chan os.Signal, 1)
		signal.Notify(heard, syscall.SIGTERM)
		for range heard {
		}
	}
	return false
}

func flood(bytes string) bool {
	total, err := strconv.Atoi(bytes)
	if err != nil {
		return false
	}
	out := bufio.NewWriterSize(os.Stdout, 64<<10) // a pipe's worth at a time: as fast as can be
	defer out.Flush()
	for n, line := 0, 1; n < total; line++ {
		k, err := fmt.Fprintf(out, "flood line %06d: the quick brown fox jumps over the lazy dog\n", line)
		if err != nil {
			os.Exit(1)
		}
		n += k
	}
	return true
}

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
func watch(pid int) {
	waits := waits{since: map[string]time.Time{}}
	spent, began := processorTime(pid), time.Now()
	for now := range time.Tick(lookEvery) {
		waits.look(pid, now)
		if now.Sub(began) < watchWindow {
			continue
		}
		total := processorTime(pid)
		fmt.Printf("watch: cpu %.1f %%, longest D %d ms in %s\n",
			100*(total-spent).Seconds()/now.Sub(began).Seconds(), waits.longest.Milliseconds(), waits.where)
		spent, began = total, now
		waits.longest, waits.where = 0, ""
	}
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
