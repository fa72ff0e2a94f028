package proc

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// This test binary is the launcher under launchMark; to become hungProgram
// takes it for ever, and that lateProgram is not there it finds out when nobody
// waits for its word any more.
const (
	launchMark  = "test-launch"
	hungProgram = "/on/a/disk/that/hangs"
	lateProgram = "/on/a/disk/that/hung"
)

// awaitNobody waits until the other end of the pipe is closed.
func awaitNobody(fd string) {
	n, err := strconv.Atoi(fd)
	if err != nil {
		panic(err)
	}
	for {
		pipe := []unix.PollFd{{Fd: int32(n)}}
		if _, err := unix.Poll(pipe, -1); err == nil && pipe[0].Revents&unix.POLLERR != 0 {
			return
		}
	}
}

func launching(t *testing.T) *Table {
	t.Helper()
	table, _ := reapingWith(t, Launcher{Path: "/proc/self/exe", Mark: launchMark})
	return table
}

// TestLaunched: a program is itself, whichever way it was started.
func TestLaunched(t *testing.T) {
	table := launching(t)
	var out buffer
	spec := shell("svc", `echo "$0 $1 $(pwd) $X"; test -e /proc/$$/fd/3 && echo left open; exit 7`)
	spec.Argv = append(spec.Argv, "name", "argument")
	spec.Dir, spec.Env = "/usr", append(spec.Env, "X=y")
	p, err := table.Start(t.Context(), spec, Output{Stdout: out.read, Stderr: out.read})
	if err != nil {
		t.Fatal(err)
	}
	ended, err := table.Wait(t.Context(), "svc", 1)
	if err != nil || ended.Exit.Code != 7 || ended.PID != p.PID {
		t.Errorf("started %+v, ended %+v, %v", p, ended, err)
	}
	if err := table.Drained(t.Context(), "svc", 1); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "name argument /usr y\n" {
		t.Errorf("output %q", got)
	}
}

func TestLaunchFails(t *testing.T) {
	table := launching(t)
	missing := Spec{Name: "svc", Path: "/does/not/exist", Argv: []string{"x"}}
	if _, err := table.Start(t.Context(), missing, discard()); err == nil || err.Error() != "start svc: exec /does/not/exist: no such file or directory" {
		t.Errorf("start of a missing file: %v", err)
	}
	nowhere := shell("svc", "true")
	nowhere.Dir = "/does/not/exist"
	if _, err := table.Start(t.Context(), nowhere, discard()); err == nil || !strings.Contains(err.Error(), "chdir /does/not/exist") {
		t.Errorf("start in a missing folder: %v", err)
	}
	if rows := table.List(); len(rows) > 0 {
		t.Errorf("what never ran is listed: %+v", rows)
	}
}

// TestLaunchFailsUnheard: whoever asked is gone, and the next has seen the
// process in the table, so its end must be told.
func TestLaunchFailsUnheard(t *testing.T) {
	table := launching(t)
	ctx, die := context.WithCancel(t.Context())
	die()
	if _, err := table.Start(ctx, Spec{Name: "svc", Incarnation: 1, Path: "/does/not/exist", Argv: []string{"x"}}, discard()); err == nil {
		t.Error("a missing file was started")
	}
	found, err := table.Exits(t.Context(), 0)
	if err != nil || len(found.Rows) != 1 || found.Rows[0].Exit.Code != exitNoExec {
		t.Errorf("exits %+v, %v", found, err)
	}
}

// TestHungExecHoldsNobody: others start, exit and are reaped meanwhile, and the
// process that waits for its disk can be killed.
func TestHungExecHoldsNobody(t *testing.T) {
	table := launching(t)
	table.patience = time.Second
	started := make(chan error)
	go func() {
		_, err := table.Start(t.Context(), Spec{Name: "hangs", Path: hungProgram, Argv: []string{"x"}}, discard())
		started <- err
	}()
	for len(table.List()) == 0 {
		time.Sleep(time.Millisecond)
	}
	if _, err := table.Start(t.Context(), shell("other", "exit 3"), discard()); err != nil {
		t.Fatal(err)
	}
	if p, err := table.Wait(t.Context(), "other", 1); err != nil || p.Exit.Code != 3 {
		t.Errorf("%+v, %v", p.Exit, err)
	}
	if err := <-started; err != nil {
		t.Error(err)
	}
	if err := table.Signal("hangs", 0, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if p, err := table.Wait(t.Context(), "hangs", 0); err != nil || p.Exit.Signal != 9 {
		t.Errorf("%+v, %v", p.Exit, err)
	}
}

// TestLateFailure: why a program that was taken to run does not is in its output.
func TestLateFailure(t *testing.T) {
	table := launching(t)
	table.patience = 10 * time.Millisecond
	var out buffer
	if _, err := table.Start(t.Context(), Spec{Name: "late", Path: lateProgram, Argv: []string{"x"}}, Output{Stdout: out.read, Stderr: out.read}); err != nil {
		t.Fatal(err)
	}
	if p, err := table.Wait(t.Context(), "late", 0); err != nil || p.Exit.Code != exitNoExec {
		t.Errorf("%+v, %v", p.Exit, err)
	}
	if err := table.Drained(t.Context(), "late", 0); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); got != "exec "+lateProgram+": no such file or directory\n" {
		t.Errorf("output %q", got)
	}
}

// TestSetup needs root, as the machine has it: each step is seen from inside.
func TestSetup(t *testing.T) {
	if os.Getuid() != 0 {
		t.Fatal("it needs root")
	}
	for _, c := range []struct {
		name   string
		setup  Setup
		script string
		want   string
	}{
		{"user", Setup{User: "4711"}, `awk '/^Uid|^Gid|^CapEff|^CapPrm/ {print $2}' /proc/self/status`, "4711\n4711\n0000000000000000\n0000000000000000\n"},
		{"capability", Setup{User: "4711", Confined: true, Capabilities: 1 << 10}, `awk '/^CapEff|^CapBnd|^CapAmb/ {print $2}' /proc/self/status`,
			"0000000000000400\n0000000000000400\n0000000000000400\n"},
		{"root without", Setup{Confined: true}, `awk '/^CapEff|^CapBnd/ {print $2}' /proc/self/status`, "0000000000000000\n0000000000000000\n"},
		{"no new privileges", Setup{NoNewPrivileges: true}, `awk '/^NoNewPrivs/ {print $2}' /proc/self/status`, "1\n"},
		{"no core", Setup{}, `ulimit -c; awk '/core file/ {print $5}' /proc/self/limits`, "0\n1\n"},
		{"core", Setup{Core: true, CoreFilter: 0x21}, `ulimit -c; cat /proc/self/coredump_filter`, "unlimited\n00000021\n"},
		{"pid namespace", Setup{Namespaces: []string{"pid", "mount", "uts", "ipc", "net"}}, `echo $$; ls -d /proc/[0-9]* | head -1; bash -c 'exec 3<>/dev/tcp/127.0.0.1/9' 2>&1 | grep -o refused`, "1\n/proc/1\nrefused\n"},
	} {
		t.Run(c.name, func(t *testing.T) {
			table := launching(t)
			var out buffer
			spec := shell("svc", c.script)
			spec.Setup = &c.setup
			if _, err := table.Start(t.Context(), spec, Output{Stdout: out.read, Stderr: out.read}); err != nil {
				t.Fatal(err)
			}
			if err := table.Drained(t.Context(), "svc", 1); err != nil {
				t.Fatal(err)
			}
			if got := out.String(); !strings.HasPrefix(got, c.want) {
				t.Errorf("said %q, want %q", got, c.want)
			}
		})
	}
}

func TestSetupFails(t *testing.T) {
	table := launching(t)
	for _, c := range []struct {
		setup Setup
		want  string
	}{
		{Setup{User: "nosuch"}, "start svc: set user nosuch: not found"},
		{Setup{Cgroup: "/does/not/exist"}, "start svc: enter cgroup: open /does/not/exist/cgroup.procs: no such file or directory"},
		{Setup{Namespaces: []string{"time"}}, `start svc: make namespace "time": no such kind`},
		{Setup{Root: "/does/not/exist"}, "start svc: enter root /does/not/exist: bind: no such file or directory"},
	} {
		spec := shell("svc", "true")
		spec.Setup = &c.setup
		if _, err := table.Start(t.Context(), spec, discard()); err == nil || err.Error() != c.want {
			t.Errorf("%+v: %v, want %s", c.setup, err, c.want)
		}
	}
}

// TestExits: each exit is told once, in order, by one call that waits.
func TestExits(t *testing.T) {
	table, ctx := reaping(t)
	for n := range 3 {
		if _, err := table.Start(t.Context(), shell(fmt.Sprint("svc", n), "read x; exit 3"), discard()); err != nil {
			t.Fatal(err)
		}
	}
	var seen []string
	for after := uint64(0); len(seen) < 3; {
		found, err := table.Exits(ctx, after)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range found.Rows {
			seen = append(seen, p.Name)
		}
		after = found.Last
	}
	if slices.Sort(seen); !slices.Equal(seen, []string{"svc0", "svc1", "svc2"}) {
		t.Errorf("told of %v", seen)
	}
	waiting, cancel := context.WithTimeout(ctx, 20*time.Millisecond)
	defer cancel()
	if found, err := table.Exits(waiting, 3); err == nil {
		t.Errorf("told again: %+v", found)
	}
}
