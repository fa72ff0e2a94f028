package boot

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/params"
	"reveille/boot/proc"
	"reveille/boot/service"
	"reveille/boot/state"
	"reveille/boot/supervise"
	"reveille/images/vmserver/vm"
)

const (
	launcherMark = "launcher" // argv[0] of what becomes a service
	serverMark   = "vmserver" // argv[1] of the service
	insideMark   = "REVEILLE_TEST_INSIDE"
)

func TestMain(m *testing.M) {
	switch {
	case os.Args[0] == launcherMark:
		proc.Launch(os.Args[1:])
	case len(os.Args) > 1 && os.Args[1] == serverMark:
		fmt.Println(vm.Main(os.Args[2:]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// TestServices runs what init and the agent have for services, with real
// processes, cgroups and sockets, in namespaces of its own: no machine is
// needed to see a service die.
func TestServices(t *testing.T) {
	if os.Getenv(insideMark) != "" {
		inside(t)
		return
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestServices$", "-test.v", "-test.timeout=2m")
	cmd.Env = append(os.Environ(), insideMark+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS | syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v (it needs root):\n%s", err, out)
	}
}

// agentLife is one life of the agent, as far as services go.
type agentLife struct {
	*testing.T
	node   *Node
	s      *supervise.Supervisor
	toInit io.Closer
}

// live begins a life over a process table that outlives it, as init's does.
func live(t *testing.T, ctx context.Context, table *proc.Table, dir string, bundles chan<- supervise.Death) *agentLife {
	return liveOver(t, ctx, tableOperations(table), dir, bundles)
}

func liveOver(t *testing.T, ctx context.Context, init map[string]proc.Handler, dir string, bundles chan<- supervise.Death) *agentLife {
	ours, its := net.Pipe()
	go func() { _ = proc.Serve(ctx, its, init) }() // ends with ctx
	n := &Node{init: proc.NewClient(ours), bootID: "boot", track: NewTracker(Stages)}
	n.logger = func(string) *slog.Logger { return slog.New(slog.NewTextHandler(t.Output(), nil)) }
	s := supervise.New(supervise.Config{
		Init: n.init, Boot: n.bootID, Now: uptime, Dir: dir, Log: n.logger("services"), Cgroups: supervise.Cgroups{Root: ownCgroups},
		Prepare: func(context.Context, service.Service, service.Ref) (supervise.Prepared, error) {
			return supervise.Prepared{}, nil
		},
		Release: func(service.Ref) error { return nil }, Watch: n.watchService, Changed: n.track.Touch,
		Bundle: func(_ context.Context, d supervise.Death) error { bundles <- d; return nil },
	})
	n.supervisor.Store(s)
	go func() { _ = s.Run(ctx) }() // ends with ctx
	return &agentLife{t, n, s, ours}
}

// tableOperations is what init serves of its table.
func tableOperations(table *proc.Table) map[string]proc.Handler {
	discard := func(r io.Reader) { _, _ = io.Copy(io.Discard, r) } // the end is its end
	return map[string]proc.Handler{
		proc.OpStart: proc.Handle(func(ctx context.Context, s proc.Spec) (proc.Process, error) {
			return table.Start(ctx, s, proc.Output{Stdout: discard, Stderr: discard})
		}),
		proc.OpSignal: proc.Handle(func(_ context.Context, q proc.Target) (proc.Nothing, error) {
			return proc.Nothing{}, table.Signal(q.Name, q.Incarnation, q.Signal)
		}),
		proc.OpList: proc.Handle(func(context.Context, proc.Nothing) ([]proc.Process, error) { return table.List(), nil }),
		proc.OpWait: proc.Handle(func(ctx context.Context, q proc.Target) (proc.Process, error) {
			return table.Wait(ctx, q.Name, q.Incarnation)
		}),
		proc.OpExits: proc.Handle(func(ctx context.Context, q proc.ExitQuery) (proc.Exits, error) { return table.Exits(ctx, q.After) }),
		proc.OpDrained: proc.Handle(func(ctx context.Context, q proc.Target) (proc.Nothing, error) {
			return proc.Nothing{}, table.Drained(ctx, q.Name, q.Incarnation)
		}),
		proc.OpNotices:  proc.Handle(table.Notices),
		proc.OpTerminal: proc.Handle(table.Terminal),
		proc.OpType:     proc.Handle(func(_ context.Context, in proc.Typed) (proc.Nothing, error) { return proc.Nothing{}, table.Type(in) }),
	}
}

// keepOperations is what init serves of what agents leave with it.
func keepOperations(kept map[proc.Slot][]byte) map[string]proc.Handler {
	var mu sync.Mutex
	return map[string]proc.Handler{
		proc.OpKeep: proc.Handle(func(_ context.Context, k proc.Kept) (proc.Nothing, error) {
			mu.Lock()
			defer mu.Unlock()
			kept[k.Slot] = k.Data
			return proc.Nothing{}, nil
		}),
		proc.OpKept: proc.Handle(func(_ context.Context, k proc.Kept) (proc.Kept, error) {
			mu.Lock()
			defer mu.Unlock()
			return proc.Kept{Slot: k.Slot, Data: kept[k.Slot]}, nil
		}),
	}
}

// ownCgroups is apart from those of another run of this test: a mount of
// cgroup2 of one's own shows the same as all others.
var ownCgroups = fmt.Sprintf("/sys/fs/cgroup/reveille-test-%d", os.Getpid())

func inside(t *testing.T) {
	for _, err := range []error{
		unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""),
		unix.Mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, ""), proc.RaiseLoopback(),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { // not empty only if the test has failed
		_ = os.Remove(ownCgroups + "/services")
		_ = os.Remove(ownCgroups)
	})
	sigchld := make(chan os.Signal, 1)
	signal.Notify(sigchld, syscall.SIGCHLD)
	table := proc.NewTable(uptime, proc.Launcher{Path: executable(t), Mark: launcherMark})
	ctx, end := context.WithCancel(t.Context())
	defer end()
	go table.Reap(ctx, sigchld)
	dir, bundles := t.TempDir(), make(chan supervise.Death, 100)

	wishes := []supervise.Wish{
		server(t, "killed", 8081), server(t, "again", 8082, "--restarter"), server(t, "late", 8083), server(t, "forgot", 8084),
		server(t, "tty", 8085), server(t, "apart", 8086), server(t, "notifies", 8087), server(t, "checked", 8088), server(t, "slow", 8089),
	}
	wishes[4].Terminal = true
	wishes[5].Namespaces = []string{"net", "mount"}
	wishes[6].Ready = &service.Probe{Notify: true, Interval: time.Minute, Deadline: time.Minute}
	wishes[6].Alive = &service.Probe{Notify: true, Interval: time.Second, Failures: 2, Deadline: time.Minute}
	wishes[7].Ready = &service.Probe{Exec: []string{"/bin/true"}, Interval: time.Second, Timeout: 10 * time.Second}
	wishes[7].Alive = &service.Probe{Exec: []string{"/bin/sh", "-c", "exit 3"}, Interval: time.Second, Timeout: 10 * time.Second, Failures: 2}
	hangs := filepath.Join(t.TempDir(), "hangs") // while it is there
	wishes[8].Alive = &service.Probe{Exec: []string{"/bin/sh", "-c", "while [ -e " + hangs + " ]; do sleep 0.1; done"}, Interval: 100 * time.Millisecond, Timeout: time.Minute, Failures: 3, Deadline: time.Minute}

	first, die := context.WithCancel(ctx)
	a := live(t, first, table, dir, bundles)
	a.desire(wishes)
	for _, port := range []int{8081, 8082, 8083, 8084, 8085} {
		a.await(nameOf(wishes, port), func(s supervise.Status) bool { return s.Verdict == service.Alive })
		for _, id := range []string{"a", "b", "c"} {
			put(t, port, "/instance/"+id)
		}
		a.await(nameOf(wishes, port), func(s supervise.Status) bool { return len(s.Instances) == 3 })
	}
	a.await("apart", func(s supervise.Status) bool { return s.Verdict == service.Alive }) // its loopback is not ours
	a.await("notifies", func(s supervise.Status) bool { return s.Ready })
	a.fails("checked", `^2 looks in a row failed, the last: exec /bin/sh: exit status 3; pid \d+ runs`)
	a.types("tty", "hello\n", `heard "hello"`)

	died := time.Now()
	put(t, 8081, "/die?signal=9")
	a.fails("killed", `^signal 9 \(killed\)`)
	t.Logf("killed: known after %s", time.Since(died))
	died = time.Now()
	put(t, 8082, "/die?signal=9") // and somebody starts it again at once
	a.fails("again", `424 Failed Dependency, no instance, and it had 3 instances: a, b, c`)
	t.Logf("started again: known after %s", time.Since(died))
	if took := time.Since(died); took > 5*time.Second {
		t.Errorf("known after %s", took)
	}
	put(t, 8083, "/fault?kind=delay&for=3")
	a.await("late", func(s supervise.Status) bool { return s.Verdict == service.Unknown && s.State == supervise.Running })
	a.await("late", func(s supervise.Status) bool { return s.Verdict == service.Alive && s.Reason == "" })
	if err := syscall.Kill(pids(table)["notifies"], syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	a.fails("notifies", `no WATCHDOG=1 within 1s; pid \d+ is stopped by a signal`)

	// The agent dies, and while there is none a server forgets what it had.
	before := pids(table)
	for _, p := range table.List() {
		if s := a.await("late", func(supervise.Status) bool { return true }); p.Name == "late" && s.Started != p.Started {
			t.Errorf("it began at %s, init says %s: who attaches would miss its first lines", s.Started, p.Started)
		}
	}
	if err := os.WriteFile(hangs, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	stuck := a.probes(table, "slow", func(row proc.Process) bool { return row.Started < uptime()-300*time.Millisecond })
	a.toInit.Close() // the killed say nothing more
	die()
	put(t, 8084, "/fault?kind=424")
	b := live(t, ctx, table, dir, bundles)
	b.desire(wishes)
	b.fails("forgot", `424 Failed Dependency, no instance, and it had 3 instances: a, b, c`)
	b.await("late", func(s supervise.Status) bool { return s.Verdict == service.Alive && len(s.Instances) == 3 })
	if after := pids(table); after["late"] != before["late"] || after["tty"] != before["tty"] {
		t.Errorf("adopted %v, before %v", after, before)
	}
	b.probes(table, "slow", func(row proc.Process) bool { return row.PID != stuck.PID }) // which nobody would have ended
	if err := os.Remove(hangs); err != nil {
		t.Fatal(err)
	}
	b.await("slow", func(s supervise.Status) bool { return s.Verdict == service.Alive && s.Reason == "" })
	b.unkept(ctx, table, wishes[2])
	b.desire(nil)
	for _, name := range []string{"late", "tty", "apart", "slow"} {
		b.await(name, func(s supervise.Status) bool { return s.Service == "" })
	}
	if left, err := os.ReadDir(ownCgroups + "/services"); err != nil || slices.ContainsFunc(left, func(e os.DirEntry) bool { return e.IsDir() }) {
		t.Errorf("cgroups are left: %v, %v", left, err)
	}
	unstored(t, ctx, table)
	counted := map[string]int{}
	for len(bundles) > 0 {
		counted[(<-bundles).Service.Name]++
	}
	for _, name := range []string{"killed", "again", "notifies", "checked", "forgot"} {
		if counted[name] != 1 {
			t.Errorf("%d bundles of %s", counted[name], name)
		}
	}
}

// unkept wants an agent that can keep nothing, and so knows of nothing, to start
// nothing and to leave alone what runs.
func (a *agentLife) unkept(ctx context.Context, table *proc.Table, w supervise.Wish) {
	a.Helper()
	before := pids(table)[w.Name]
	ctx, die := context.WithCancel(ctx)
	defer die()
	c := live(a.T, ctx, table, "/proc/nowhere", make(chan supervise.Death, 100))
	c.desire([]supervise.Wish{w})
	s := c.await(w.Name, func(s supervise.Status) bool { return s.State == supervise.Failed })
	if want := "keep " + w.Name + "#2: "; !strings.HasPrefix(s.Reason, want) {
		a.Errorf("%s, want %s...", s.Reason, want)
	}
	if after := pids(table)[w.Name]; after == 0 || after != before {
		a.Errorf("%s was pid %d and is %d", w.Name, before, after)
	}
}

// probes waits for a probe of a service that is as it should be.
func (a *agentLife) probes(table *proc.Table, name string, ok func(proc.Process) bool) proc.Process {
	a.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		for _, row := range table.List() {
			if row.Name == name+"/probe" && row.Running() && ok(row) {
				return row
			}
		}
	}
	a.Fatalf("no such probe of %s in %+v", name, table.List())
	return proc.Process{}
}

// unstored: the cluster gives generation 2, which cannot be stored, and the
// agent dies. The next one goes on with it, and while it cannot read it stops
// nothing.
func unstored(t *testing.T, ctx context.Context, table *proc.Table) {
	dir, kept := t.TempDir(), map[proc.Slot][]byte{}
	init := tableOperations(table)
	maps.Copy(init, keepOperations(kept))
	given := &clusterv1.DesiredServices{Generation: 2, Document: []byte("version: 1\nservices: {vms: {command: [/bin/sleep, 1000], restart: never}}\n")}
	stored, err := packServices(&clusterv1.DesiredServices{Generation: 1})
	if err != nil {
		t.Fatal(err)
	}
	next := func(ctx context.Context) *agentLife {
		a := liveOver(t, ctx, init, dir, nil)
		a.node.params = &params.Params{}
		a.node.opened.vault = &state.Vault{} // that stores nothing
		if err := a.node.recallServices(ctx, stored); err != nil {
			t.Fatal(err)
		}
		go a.node.desire(ctx, a.s)
		return a
	}
	runs := func(s supervise.Status) bool { return s.State == supervise.Running && s.Incarnation == 1 && s.Enabled }

	first, die := context.WithCancel(ctx)
	a := next(first)
	a.node.keepServices(first, given)
	a.await("vms", runs)
	die()
	second, die := context.WithCancel(ctx)
	b := next(second)
	b.await("vms", runs)
	if b.node.desired.Given() != 2 {
		t.Errorf("generation %d is in force", b.node.desired.Given())
	}
	die()
	whole := kept[proc.KeptServices]
	kept[proc.KeptServices] = whole[:len(whole)/2]
	c := next(ctx)
	c.await("vms", func(s supervise.Status) bool { return s.State == supervise.Running && !s.Enabled })
	if _, known, _ := c.node.desired.Get(); known || c.node.desired.Given() != 0 {
		t.Error("what cannot be read is in force")
	}
	c.node.keepServices(ctx, given)
	c.await("vms", runs)
	c.node.keepServices(ctx, &clusterv1.DesiredServices{Generation: 3})
	c.await("vms", func(s supervise.Status) bool { return s.Service == "" })
}

func executable(t *testing.T) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return self
}

// server is a VM server that is never restarted.
func server(t *testing.T, name string, port int, args ...string) supervise.Wish {
	at := fmt.Sprintf("127.0.0.1:%d", port)
	return supervise.Wish{Service: service.Service{
		Name: name, Digest: name, Command: append([]string{executable(t), serverMark, "--listen", at}, args...), Restart: service.Never,
		Stop: service.Stop{Signal: syscall.SIGTERM, Timeout: 10 * time.Second},
		Alive: &service.Probe{
			Identity: &service.Identity{List: "http://" + at + "/instances", Watch: "http://" + at + "/instances/watch"},
			Interval: time.Second, Timeout: time.Second, Deadline: 20 * time.Second,
		},
	}}
}

func nameOf(wishes []supervise.Wish, port int) string {
	return wishes[slices.IndexFunc(wishes, func(w supervise.Wish) bool { return strings.HasSuffix(w.Command[3], fmt.Sprint(port)) })].Name
}

// put asks a server for something that it may die of.
func put(t *testing.T, port int, path string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPut, fmt.Sprintf("http://127.0.0.1:%d%s", port, path), nil)
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := http.DefaultTransport.RoundTrip(req); err == nil {
		resp.Body.Close()
	} else if !strings.Contains(path, "die") {
		t.Fatal(err)
	}
}

func pids(table *proc.Table) map[string]int {
	all := map[string]int{}
	for _, p := range table.List() {
		if p.Running() {
			all[p.Name] = p.PID
		}
	}
	return all
}

func (a *agentLife) desire(wishes []supervise.Wish) {
	a.Helper()
	if err := a.s.Desire(a.Context(), wishes); err != nil {
		a.Fatal(err)
	}
}

// await waits until a service is as it should be; one that is not there is zero.
func (a *agentLife) await(name string, ok func(supervise.Status) bool) supervise.Status {
	a.Helper()
	deadline := time.After(time.Minute)
	for {
		changed := a.node.track.Changed()
		var s supervise.Status
		for _, st := range a.s.Status() {
			if st.Service == name {
				s = st
			}
		}
		if ok(s) {
			return s
		}
		select {
		case <-changed:
		case <-time.After(100 * time.Millisecond): // a wish that changes nothing else is not told
		case <-deadline:
			a.Fatalf("%s is %s, %q, %s", name, s.State, s.Verdict, s.Reason)
		}
	}
}

// fails waits until a service has failed, for a reason, and not been started again.
func (a *agentLife) fails(name, reason string) {
	a.Helper()
	s := a.await(name, func(s supervise.Status) bool { return s.State == supervise.Failed })
	if !regexp.MustCompile(reason).MatchString(s.Reason) || s.Incarnation != 1 {
		a.Errorf("%s, incarnation %d: %s", name, s.Incarnation, s.Reason)
	}
}

// types types into a service's terminal, as who is attached does.
func (a *agentLife) types(name, text, want string) {
	a.Helper()
	at := attachable{a.node}
	s, err := at.Service(a.Context(), name)
	if err == nil {
		err = at.Type(a.Context(), s, []byte(text), 40, 100)
	}
	shown := ""
	for from := uint64(0); err == nil && !strings.Contains(shown, want); {
		var data []byte
		data, from, err = at.Output(a.Context(), s, from)
		shown += string(data)
	}
	if err != nil {
		a.Errorf("terminal of %s: %q, %v", name, shown, err)
	}
}
