package pid1

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reveille/boot/proc"
	"reveille/console"
)

// TestMain makes this process the reaper of its orphans, as init is, and plays
// the agent (agent_test.go) or init (warden_test.go) when started as one.
func TestMain(m *testing.M) {
	switch os.Args[0] {
	case fakeAgent:
		runFakeAgent()
		os.Exit(0)
	case fakeInit:
		runFakeInit()
		os.Exit(0)
	}
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, "become subreaper:", err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// newTestInit is an init without consoles whose agent is the fake one, in the
// given role. It reaps until the test ends, and leaves no process behind.
func newTestInit(t *testing.T, role string) (*Init, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	i := newInit(Options{BuildID: "test", Program: "/proc/self/exe", AgentArgs: []string{fakeAgent, role}})
	sigchld := make(chan os.Signal, 1)
	signal.Notify(sigchld, syscall.SIGCHLD)
	reaping, stop := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); i.table.Reap(reaping, sigchld) }()
	t.Cleanup(func() {
		cancel()
		killOurs(i)
		stop()
		<-done
		signal.Stop(sigchld)
		i.screens.Close(context.Background())
	})
	return i, ctx
}

// killOurs kills what the table holds and waits for it: the test's killAll.
func killOurs(i *Init) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	for _, p := range i.table.List() {
		if i.table.Signal(p.Name, p.Incarnation, syscall.SIGKILL) == nil {
			_, _ = i.table.Wait(ctx, p.Name, p.Incarnation)
		}
	}
}

// texts is the log's records of an origin.
func texts(i *Init, origin string) (all []string) {
	from := uint64(0)
	for {
		records, _, next := i.log.Read(from, console.Filter{Origins: []string{origin}}, 1000)
		if len(records) == 0 {
			return all
		}
		for _, r := range records {
			all = append(all, r.Text)
		}
		from = next
	}
}

func wholeLog(i *Init) string {
	records, _, _ := i.log.Read(0, console.Filter{}, 10000)
	var b strings.Builder
	for _, r := range records {
		fmt.Fprintf(&b, "%s %s %s\n", r.Origin, r.Level, r.Text)
	}
	return b.String()
}

// awaitLog waits until some record holds text.
func awaitLog(t *testing.T, ctx context.Context, i *Init, text string) {
	t.Helper()
	f := i.log.Follow(0, console.Filter{})
	defer f.Close()
	for {
		records, _, err := f.Next(ctx, 100)
		if err != nil {
			t.Fatalf("no %q in the log: %v\n%s", text, err, wholeLog(i))
		}
		for _, r := range records {
			if strings.Contains(r.Text, text) {
				return
			}
		}
	}
}

func shell(name, script string) proc.Spec {
	return proc.Spec{Name: name, Incarnation: 1, Path: "/bin/sh", Argv: []string{"sh", "-c", script}, Env: []string{"PATH=/usr/bin:/bin"}}
}
