package proc

import (
	"strings"
	"syscall"
	"testing"
	"time"
)

// This test binary is the launcher under launchMark; to become hungProgram
// takes it for ever.
const (
	launchMark  = "test-launch"
	hungProgram = "/on/a/disk/that/hangs"
)

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
	p, err := table.Start(spec, Output{out.read, out.read})
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
	if _, err := table.Start(missing, discard()); err == nil || err.Error() != "start svc: exec /does/not/exist: no such file or directory" {
		t.Errorf("start of a missing file: %v", err)
	}
	nowhere := shell("svc", "true")
	nowhere.Dir = "/does/not/exist"
	if _, err := table.Start(nowhere, discard()); err == nil || !strings.Contains(err.Error(), "chdir /does/not/exist") {
		t.Errorf("start in a missing folder: %v", err)
	}
	if rows := table.List(); len(rows) > 0 {
		t.Errorf("what never ran is listed: %+v", rows)
	}
}

// TestHungExecHoldsNobody: others start, exit and are reaped meanwhile, and the
// process that waits for its disk can be killed.
func TestHungExecHoldsNobody(t *testing.T) {
	table := launching(t)
	table.patience = time.Second
	started := make(chan error)
	go func() {
		_, err := table.Start(Spec{Name: "hangs", Path: hungProgram, Argv: []string{"x"}}, discard())
		started <- err
	}()
	for len(table.List()) == 0 {
		time.Sleep(time.Millisecond)
	}
	if _, err := table.Start(shell("other", "exit 3"), discard()); err != nil {
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
