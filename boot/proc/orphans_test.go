package proc

import (
	"fmt"
	"os"
	"strconv"
	"sync"
	"syscall"
	"testing"
)

// orphanMark is argv[0] of this test binary when it makes orphans; argv[1] is
// how many.
const orphanMark = "test-orphans"

// makeOrphans leaves n processes behind, one after the other, each forked by a
// child that is dead by then: as a daemon does it, and faster than a shell. It
// ends with status 9.
func makeOrphans(n string) {
	count, err := strconv.Atoi(n)
	if err != nil {
		os.Exit(1)
	}
	for range count {
		pid := forkTwice()
		if _, err := syscall.Wait4(pid, nil, 0, nil); err != nil {
			os.Exit(2)
		}
	}
	os.Exit(9)
}

// forkTwice returns the child's pid. What was forked runs system calls and
// nothing of Go's: the runtime's other threads are not there.
//
//go:norace
//go:noinline
func forkTwice() int {
	pid, _, errno := syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
	if pid == 0 {
		syscall.RawSyscall6(syscall.SYS_CLONE, uintptr(syscall.SIGCHLD), 0, 0, 0, 0, 0)
		syscall.RawSyscall(syscall.SYS_EXIT_GROUP, 77, 0, 0)
	}
	if errno != 0 {
		return -1
	}
	return int(pid)
}

// orphanStorm has children exit by the hundred, each with a status of its own,
// while n orphans arrive that nobody waits for.
func orphanStorm(t *testing.T, n int) {
	table, ctx := reaping(t)
	maker := Spec{Name: "maker", Incarnation: 1, Path: "/proc/self/exe", Argv: []string{orphanMark, strconv.Itoa(n)}}
	if _, err := table.Start(t.Context(), maker, discard()); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for lane := range 4 {
		all.Go(func() {
			name := fmt.Sprint("child", lane)
			for k := uint64(1); k <= 100; k++ {
				spec := shell(name, fmt.Sprintf("exit %d", k%200))
				spec.Incarnation = k
				if _, err := table.Start(t.Context(), spec, discard()); err != nil {
					t.Errorf("%s %d: %v", name, k, err)
					return
				}
				if p, err := table.Wait(ctx, name, k); err != nil || p.Exit.Code != int(k%200) {
					t.Errorf("%s %d: %v, %v", name, k, p.Exit, err)
					return
				}
			}
		})
	}
	all.Wait()
	if p, err := table.Wait(ctx, "maker", 1); err != nil || p.Exit.Code != 9 {
		t.Errorf("the maker of orphans: %v, %v", p.Exit, err)
	}
	waitForNoChildren(t, ctx)
}

// TestOrphanStorm is the short one; see make soak.
func TestOrphanStorm(t *testing.T) { orphanStorm(t, 2000) }
