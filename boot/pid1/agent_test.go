package pid1

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"reveille/boot/proc"
	"reveille/console"
	"reveille/internal/synctest"
)

// fakeAgent is argv[0] of this test binary when it plays the agent; argv[1] is
// its role.
const fakeAgent = "fake-agent"

const records = 500

func runFakeAgent() {
	logs, control := dial(3), dial(4)
	say := func(text string) { logs.Write(console.EncodePacket("fake", console.Info, text)) }
	init := proc.NewClient(control)
	init.SetStage(context.Background(), proc.Progress{Stage: "network"})
	switch os.Args[1] {
	case "clean":
	case "two":
		os.Exit(2)
	case "panic":
		panic("the fake agent panics")
	case "goroutine":
		go func() { panic("a goroutine of the fake agent panics") }()
		select {}
	case "exhausts":
		for n := range records {
			say(fmt.Sprint("record ", n))
		}
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "secret":
		init.Keep(context.Background(), proc.KeptConfig, []byte("a-secret-to-keep"))
		if got, err := init.Kept(context.Background(), proc.KeptConfig); err != nil || string(got) != "a-secret-to-keep" {
			say(fmt.Sprintf("kept %q, %v", got, err))
		}
		say("gave a secret away")
		os.Exit(3)
	case "orphan": // leaves a child behind that holds its pipes
		syscall.ForkExec("/bin/sleep", []string{"sleep", "20"}, &syscall.ProcAttr{Files: []uintptr{0, 1, 2, 3}, Sys: &syscall.SysProcAttr{Setsid: true}})
		os.Exit(4)
	case "deaf":
		signal.Ignore(syscall.SIGTERM)
		say("deaf")
		select {}
	case "stopped":
		say("hanging")
		syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		select {}
	case "hung": // its dump is far over a pipe's 1 MiB
		for range 1500 {
			go deep(20)
		}
		say("hanging")
		select {}
	case "dumps": // dies, and is never done with it
		fmt.Fprint(os.Stderr, "fatal error: all is lost\n\ngoroutine 1 [running]:\nmain.lose()\n\t/a/b.go:1 +0x1\n")
		for n := 2; ; n++ {
			fmt.Fprintf(os.Stderr, "\ngoroutine %d [select]:\nmain.wait()\n\t/a/b.go:2 +0x1\n", n)
		}
	}
}

func deep(n int) {
	if n == 0 {
		select {}
	}
	deep(n - 1)
}

func dial(fd uintptr) net.Conn {
	conn, err := net.FileConn(os.NewFile(fd, "socket"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "fake agent:", err)
		os.Exit(1)
	}
	return conn
}

// TestAgentEnds looks at what init makes of each way to die: the reason it
// gives, and what stands on record.
func TestAgentEnds(t *testing.T) {
	for _, c := range []struct{ role, ended, summary, trace string }{
		{"clean", "exit status 0", "agent crashed: exit status 0", ""},
		{"two", "exit status 2", "agent crashed: exit status 2", ""},
		{"panic", "exit status 2", "agent crashed: panic: the fake agent panics", "pid1.runFakeAgent"},
		{"goroutine", "exit status 2", "agent crashed: panic: a goroutine of the fake agent panics", "pid1.runFakeAgent.func"},
		{"exhausts", "signal 9 (killed)", "agent crashed: signal 9 (killed)", ""},
	} {
		t.Run(c.role, func(t *testing.T) {
			i, ctx := newTestInit(t, c.role)
			if got := i.runAgent(ctx, 7); got != c.ended {
				t.Errorf("ended: %q, want %q", got, c.ended)
			}
			crash := texts(i, console.CrashOrigin)
			if len(crash) == 0 || !strings.HasPrefix(crash[0], c.summary) || !strings.Contains(crash[0], "build test, incarnation 7, stage network") {
				t.Fatalf("summary: %q", crash)
			}
			if c.trace != "" && (len(crash) != 2 || !strings.Contains(crash[1], c.trace)) {
				t.Errorf("no %s in the trace: %q", c.trace, crash[1:])
			}
			if i.crashes.Count != 1 || !strings.HasSuffix(c.summary, i.crashes.Last) {
				t.Errorf("counted: %+v", i.crashes)
			}
		})
	}
}

// TestLogBeforeKill wants every record that the agent had handed over, in
// order, before the record of its death.
func TestLogBeforeKill(t *testing.T) {
	i, ctx := newTestInit(t, "exhausts")
	i.runAgent(ctx, 1)
	got := texts(i, "fake")
	if len(got) != records {
		t.Fatalf("%d of %d records", len(got), records)
	}
	for n, text := range got {
		if text != fmt.Sprint("record ", n) {
			t.Fatalf("record %d is %q", n, text)
		}
	}
	all, _, _ := i.log.Read(0, console.Filter{}, 10000)
	if last := all[len(all)-1]; last.Origin != console.CrashOrigin {
		t.Errorf("the crash is not last: %+v", last)
	}
}

// TestStartFails: an agent that cannot be started is a crash like any other, and
// has come to no stage, whatever the one before it had.
func TestStartFails(t *testing.T) {
	i, ctx := newTestInit(t, "clean")
	i.options.Program = "/does/not/exist"
	i.progress.Stage = "join"
	if got := i.runAgent(ctx, 1); !strings.Contains(got, "exec /does/not/exist: no such file") {
		t.Errorf("ended: %q", got)
	}
	crash := texts(i, console.CrashOrigin)
	if len(crash) != 1 || !strings.Contains(crash[0], "agent crashed: start agent: exec /does/not/exist") ||
		!strings.Contains(crash[0], "incarnation 1, stage none yet") || !strings.Contains(crash[0], "never ran") {
		t.Errorf("on record: %q", crash)
	}
}

// TestOrphanHoldsNobody: a process that the agent left behind has its pipes
// and sockets open; the next agent must not wait for it.
func TestOrphanHoldsNobody(t *testing.T) {
	i, ctx := newTestInit(t, "orphan")
	begun := time.Now()
	if got := i.runAgent(ctx, 1); got != "exit status 4" {
		t.Errorf("ended: %q", got)
	}
	if took := time.Since(begun); took > lastWords+5*time.Second {
		t.Errorf("took %s", took)
	}
	killOrphans(t)
}

// killOrphans ends the children of this process that no table knows. A child
// belongs to the thread that made it.
func killOrphans(t *testing.T) {
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(lists) == 0 {
		t.Fatal("no list of children: ", err)
	}
	for _, list := range lists {
		children, _ := os.ReadFile(list) // a thread may have ended
		for f := range strings.FieldsSeq(string(children)) {
			if pid, err := strconv.Atoi(f); err == nil && pid > 1 {
				syscall.Kill(pid, syscall.SIGKILL)
			}
		}
	}
}

// TestSecretStaysKept: what the agent leaves with init is in no record.
func TestSecretStaysKept(t *testing.T) {
	i, ctx := newTestInit(t, "secret")
	i.runAgent(ctx, 1)
	if got := texts(i, "fake"); len(got) != 1 || got[0] != "gave a secret away" {
		t.Errorf("the agent says %q", got)
	}
	if log := wholeLog(i); strings.Contains(log, "a-secret") {
		t.Errorf("the secret is in the log:\n%s", log)
	}
	if string(i.kept[proc.KeptConfig]) != "a-secret-to-keep" {
		t.Error("the secret is not kept")
	}
	if _, err := i.keep(ctx, proc.Kept{Slot: proc.KeptServices, Data: make([]byte, proc.MaxKept+1)}); err == nil {
		t.Error("kept more than the bound")
	}
}

// TestAgentComesBack wants a second incarnation soon after the first died, and
// none once the end was asked for.
func TestAgentComesBack(t *testing.T) {
	i, ctx := newTestInit(t, "two")
	ctx, stop := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() { defer close(done); i.keepAgent(ctx) }()
	awaitLog(t, ctx, i, "agent 1 ended: exit status 2; starting it again in 500ms")
	awaitLog(t, ctx, i, "agent 2 ended: exit status 2; starting it again in 1s")
	stop()
	<-done
}

// TestHungAgent wants a silent agent asked where it is and then dead, with a
// crash that says so, whatever it does with signals and however long its dump.
// Its silence begins when it has come to where it hangs, however busy the
// machine: time is not waited for, it is set back.
func TestHungAgent(t *testing.T) {
	for _, c := range []struct {
		role, state string // of the process, by proc_pid_stat(5)
		trace       string
		kept        int // bytes that the crash collector keeps at least
	}{
		{"hung", "S", "pid1.runFakeAgent", console.DefaultCrashHead},
		{"stopped", "T", "pid1.runFakeAgent", 100},
	} {
		t.Run(c.role, func(t *testing.T) {
			i, ctx := newTestInit(t, c.role)
			i.hungAfter, i.dumpGrace = time.Hour, time.Hour
			ended := make(chan string, 1)
			go func() { ended <- i.runAgent(ctx, 1) }()
			awaitLog(t, ctx, i, "hanging")
			awaitState(t, ctx, i, c.state)
			i.mu.Lock()
			i.heard = i.heard.Add(-2 * i.hungAfter)
			i.mu.Unlock()
			select {
			case got := <-ended:
				if got != "hung: no progress for 1h0m0s" {
					t.Errorf("ended: %q", got)
				}
			case <-ctx.Done():
				t.Fatalf("lives on; the log:\n%s", wholeLog(i))
			}
			crash := texts(i, console.CrashOrigin)
			if len(crash) != 2 || !strings.HasPrefix(crash[0], "agent crashed: hung: no progress for 1h0m0s") {
				t.Fatalf("on record: %.500q", crash)
			}
			if !strings.Contains(crash[1], "SIGQUIT: quit") || !strings.Contains(crash[1], c.trace) || len(crash[1]) < c.kept {
				t.Errorf("the trace has %d bytes: %.500s", len(crash[1]), crash[1])
			}
			if i.crashes.Count != 1 || i.crashes.Last != "hung: no progress for 1h0m0s" {
				t.Errorf("counted: %+v", i.crashes)
			}
		})
	}
}

// awaitState waits until the agent's main thread is in that state.
func awaitState(t *testing.T, ctx context.Context, i *Init, state string) {
	t.Helper()
	pid := i.table.List()[0].PID
	for {
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			t.Fatal(err)
		}
		if _, rest, _ := strings.Cut(string(text), ") "); strings.HasPrefix(rest, state) {
			return
		}
		if !pause(ctx, 10*time.Millisecond) {
			t.Fatalf("the agent is not in state %s: %s", state, text)
		}
	}
}

// TestEndlessDump wants an agent that dies at length dead before it counts as
// hung, for the reason that it gave.
func TestEndlessDump(t *testing.T) {
	i, ctx := newTestInit(t, "dumps")
	i.dumpGrace = time.Second
	if got := i.runAgent(ctx, 1); got != "signal 9 (killed)" {
		t.Errorf("ended: %q", got)
	}
	crash := texts(i, console.CrashOrigin)
	if len(crash) != 2 || !strings.HasPrefix(crash[0], "agent crashed: fatal error: all is lost") || !strings.Contains(crash[0], "main.lose") {
		t.Fatalf("on record: %.500q", crash)
	}
}

// TestReportsAreProgress: an agent that reports is left alone, and no longer
// than it does.
func TestReportsAreProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		i := &Init{hungAfter: hungAfter, dumpGrace: dumpGrace, log: console.NewLog(console.DefaultLimits(), console.BootTime), table: proc.NewTable(console.BootTime, proc.Launcher{})}
		i.born()
		cause := make(chan string, 1)
		go func() { cause <- i.endHung(t.Context(), 1, console.NewCrashCollector(1, 1, nil)) }()
		for range 20 {
			time.Sleep(hungAfter - time.Millisecond)
			if log := wholeLog(i); log != "" {
				t.Fatalf("an agent that reports is asked for its end:\n%s", log)
			}
			i.setStage(t.Context(), proc.Progress{Stage: "join"})
		}
		begun := time.Now()
		if got := <-cause; got != "hung: no progress for 30s" {
			t.Errorf("cause %q", got)
		}
		if took := time.Since(begun); took != hungAfter+dumpGrace {
			t.Errorf("took %s", took)
		}
	})
}

// TestLoopEndsInReboot: a machine whose agent dies again and again restarts
// once it has been up for long enough, and only if that can be counted.
func TestLoopEndsInReboot(t *testing.T) {
	i, _ := newTestInit(t, "two")
	i.forced = newLedger(t.TempDir(), "reboots")
	if i.leaveLoop() {
		t.Error("reboots without a count")
	}
	i.forced = newDisk(t)
	if !i.leaveLoop() {
		t.Error("no reboot")
	}
	if r := <-i.stopped; r.How != proc.Reboot || !strings.Contains(r.Reason, "crashed 10 times") {
		t.Errorf("ends with %+v", r)
	}
	if err := i.forced.set(1000); err != nil {
		t.Fatal(err)
	}
	if up := console.BootTime(); up < lastBackoff && i.leaveLoop() {
		t.Errorf("reboots again, %s up", up)
	}
	if log := wholeLog(i); !strings.Contains(log, "going on without a reboot: the state partition is not mounted") {
		t.Errorf("the log:\n%s", log)
	}
}
