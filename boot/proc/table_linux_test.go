package proc

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestMain makes this process the reaper of its orphans, as PID 1 is.
func TestMain(m *testing.M) {
	switch os.Args[0] {
	case launchMark:
		switch os.Args[4] {
		case hungProgram:
			select {}
		case lateProgram:
			awaitNobody(os.Args[1])
		}
		Launch(os.Args[1:])
	case orphanMark:
		makeOrphans(os.Args[1])
	case notifyMark:
		notify(os.Args[1:])
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "become subreaper:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

type buffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.Write(p)
}

func (b *buffer) read(r io.Reader) { io.Copy(b, r) }

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.b.String()
}

func discard() Output {
	read := func(r io.Reader) { io.Copy(io.Discard, r) }
	return Output{Stdout: read, Stderr: read}
}

// reaping runs a table with its reaper until the test ends.
func reaping(t *testing.T) (*Table, context.Context) {
	t.Helper()
	return reapingWith(t, Launcher{})
}

func reapingWith(t *testing.T, l Launcher) (*Table, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	sigchld := make(chan os.Signal, 1)
	signal.Notify(sigchld, syscall.SIGCHLD)
	start := time.Now()
	table := NewTable(func() time.Duration { return time.Since(start) }, l)
	done := make(chan struct{})
	go func() { defer close(done); table.Reap(ctx, sigchld) }()
	t.Cleanup(func() { cancel(); <-done; signal.Stop(sigchld) })
	return table, ctx
}

func shell(name, script string) Spec {
	return Spec{Name: name, Incarnation: 1, Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}}
}

func TestExitIsTold(t *testing.T) {
	table, ctx := reaping(t)
	for _, c := range []struct{ name, script, want string }{
		{"zero", "exit 0", "exit status 0"},
		{"two", "exit 2", "exit status 2"},
		{"killed", "kill -9 $$", "signal 9 (killed)"},
		{"segv", "ulimit -c 0; kill -SEGV $$", "signal 11 (segmentation fault)"},
	} {
		var out, err buffer
		c.script = "echo to out; echo to err >&2; " + c.script
		if _, e := table.Start(t.Context(), shell(c.name, c.script), Output{Stdout: out.read, Stderr: err.read}); e != nil {
			t.Fatal(e)
		}
		p, e := table.Wait(ctx, c.name, 1)
		if e != nil {
			t.Fatalf("%s: %v", c.name, e)
		}
		if got := p.Exit.String(); got != c.want {
			t.Errorf("%s: exit %q, want %q", c.name, got, c.want)
		}
		if e := table.Drained(ctx, c.name, 1); e != nil {
			t.Fatal(e)
		}
		if out.String() != "to out\n" || err.String() != "to err\n" {
			t.Errorf("%s: output %q, %q", c.name, out.String(), err.String())
		}
	}
}

func TestStartRefuses(t *testing.T) {
	table, ctx := reaping(t)
	if _, err := table.Start(t.Context(), shell("one", "sleep 30"), discard()); err != nil {
		t.Fatal(err)
	}
	if _, err := table.Start(t.Context(), shell("one", "true"), discard()); err == nil || !strings.Contains(err.Error(), "already runs") {
		t.Errorf("second start of a running name: %v", err)
	}
	if _, err := table.Start(t.Context(), Spec{Name: "none", Path: "/does/not/exist", Argv: []string{"x"}}, discard()); err == nil || !strings.Contains(err.Error(), "exec /does/not/exist") {
		t.Errorf("start of a missing file: %v", err)
	}
	if err := table.Signal("one", 2, syscall.SIGKILL); err == nil {
		t.Error("signal reached another incarnation")
	}
	if err := table.Signal("one", 1, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if p, err := table.Wait(ctx, "one", 1); err != nil || p.Exit.Signal != 9 {
		t.Errorf("after kill: %+v, %v", p.Exit, err)
	}
}

// TestStormLosesNoStatus has many children exit at once, each with a status of
// its own, while orphans arrive that nobody waits for.
func TestStormLosesNoStatus(t *testing.T) {
	table, ctx := reaping(t)
	const children = 300
	var all sync.WaitGroup
	for n := range children {
		name := fmt.Sprint("child", n)
		script := fmt.Sprintf("(true & true & ) ; exit %d", n%200)
		if _, err := table.Start(t.Context(), shell(name, script), discard()); err != nil {
			t.Fatal(err)
		}
		all.Go(func() {
			p, err := table.Wait(ctx, name, 1)
			if err != nil || p.Exit.Code != n%200 {
				t.Errorf("%s: %v, %v", name, p.Exit, err)
			}
		})
	}
	all.Wait()
	waitForNoChildren(t, ctx)
}

func waitForNoChildren(t *testing.T, ctx context.Context) {
	t.Helper()
	path := fmt.Sprintf("/proc/self/task/%d/children", os.Getpid())
	for {
		left, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if len(bytes.TrimSpace(left)) == 0 {
			return
		}
		select {
		case <-ctx.Done():
			t.Fatalf("zombies left: %s", left)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// TestChildIsNotProtected: what the OOM killer thinks of init is not inherited.
// To raise the number needs no privilege, to lower it as init does would.
func TestChildIsNotProtected(t *testing.T) {
	const own = "/proc/self/oom_score_adj"
	was, err := os.ReadFile(own)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(own, []byte("500"), 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.WriteFile(own, was, 0) })
	table, ctx := reaping(t)
	p, err := table.Start(t.Context(), shell("child", "sleep 30"), discard())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(fmt.Sprintf("/proc/%d/oom_score_adj", p.PID)); string(got) != "0\n" {
		t.Errorf("oom_score_adj %q, %v", got, err)
	}
	if err := table.Signal("child", 1, syscall.SIGKILL); err != nil {
		t.Error(err)
	}
	if _, err := table.Wait(ctx, "child", 1); err != nil {
		t.Error(err)
	}
}
