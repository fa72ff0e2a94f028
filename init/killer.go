//go:build faults

package main

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"reveille/boot"
)

// killer kills so many agents in a row, each at a random moment of its life,
// and says of each what it had logged by then. It does not return.
func killer(number string) bool {
	kills, err := strconv.Atoi(number)
	if err != nil {
		return false
	}
	last := 0
	for k := 1; k <= kills; k++ {
		pid := awaitAgent(last)
		last = pid
		life := lifetime()
		time.Sleep(life)
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			fmt.Printf("kill %d: pid %d: %v after %s\n", k, pid, err, life)
			continue
		}
		for agentIs(pid) {
			time.Sleep(look)
		}
		said, _ := os.ReadFile(boot.Said) // none: nothing was said
		fmt.Printf("kill %d: pid %d after %s, said %s\n", k, pid, life, strings.Join(strings.Fields(string(said)), " "))
	}
	agent := awaitAgent(last)
	fmt.Printf("over: %d kills, %d zombies\n", kills, zombies(1, os.Getppid(), agent))
	for {
		time.Sleep(time.Hour)
	}
}

// look is how often the killer looks at the processes.
const look = 5 * time.Millisecond

// lifetime is how long an agent may live: most die on their way through the
// stages, which takes some 4 s without virtualisation, some as members.
func lifetime() time.Duration {
	limit := time.Second
	switch n := rand.N(10); {
	case n == 0:
		limit = 10 * time.Second
	case n < 4:
		limit = 4 * time.Second
	}
	return rand.N(limit)
}

// awaitAgent returns the pid of the agent once it is another than before.
func awaitAgent(before int) int {
	for {
		for _, pid := range processes() {
			if pid != before && agentIs(pid) {
				return pid
			}
		}
		time.Sleep(look)
	}
}

// agentIs tells whether the agent is that process; a dead one has no arguments.
func agentIs(pid int) bool {
	args, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid)) // gone: not it
	return bytes.HasPrefix(args, []byte(agentMark+"\x00"))
}

func processes() (pids []int) {
	names, _ := filepath.Glob("/proc/[0-9]*") // its only error is that of a bad pattern
	for _, name := range names {
		if pid, err := strconv.Atoi(filepath.Base(name)); err == nil {
			pids = append(pids, pid)
		}
	}
	return pids
}

// zombies counts those that stay: one that is just being reaped does not. Only
// those of the parents count: a service may have its own.
func zombies(parents ...int) (count int) {
	for range 20 {
		count = 0
		for _, pid := range processes() {
			if f := stat(fmt.Sprintf("/proc/%d/stat", pid)); len(f) > 1 && f[0] == "Z" && slices.ContainsFunc(parents, func(p int) bool { return f[1] == strconv.Itoa(p) }) {
				count++
			}
		}
		if count == 0 {
			break
		}
		time.Sleep(250 * time.Millisecond)
	}
	return count
}

// bystander says every second that it lives, and as which process.
func bystander() {
	for beat := 1; ; beat++ {
		fmt.Printf("beat %d of pid %d\n", beat, os.Getpid())
		time.Sleep(time.Second)
	}
}
