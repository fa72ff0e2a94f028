//go:build bench

package supervise

import (
	"bytes"
	"context"
	"debug/elf"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reveille/boot/proc"
	"reveille/boot/service"
)

const (
	benchServices = 500
	benchDeaths   = 200
	benchSteady   = 20 * time.Second
	benchMark     = "bench-launch" // argv[0] of this program as the launcher
	peers         = "/peers"       // a tree with runit, in the guest that `make bench` boots
	targetCPU     = 2.0            // % of one core, init and agent together
	targetDeath   = 100 * time.Millisecond
)

func TestMain(m *testing.M) {
	if os.Args[0] == benchMark {
		proc.Launch(os.Args[1:])
	}
	os.Exit(m.Run())
}

// TestManyServices runs 500 services, as init and the agent do it, in one
// process, with the control socket between them; and the same below runit.
func TestManyServices(t *testing.T) {
	mountCgroups(t)
	t.Run("reveille", benchReveille)
	t.Run("runit", benchRunit)
}

func mountCgroups(t *testing.T) {
	if err := unix.Mount("cgroup2", "/sys/fs/cgroup", "cgroup2", 0, ""); err != nil && err != unix.EBUSY {
		t.Fatal("mount cgroup2:", err)
	}
}

// pauseProgram is a program that does nothing, in 129 bytes: what is measured
// is not the service.
func pauseProgram() []byte {
	code := []byte{0xb8, 34, 0, 0, 0, 0x0f, 0x05, 0xeb, 0xf7} // again: mov eax, SYS_pause; syscall; jmp again
	const base, head = 0x400000, 64 + 56
	size := uint64(head + len(code))
	h := elf.Header64{
		Ident: [16]byte{0x7f, 'E', 'L', 'F', byte(elf.ELFCLASS64), byte(elf.ELFDATA2LSB), 1},
		Type:  uint16(elf.ET_EXEC), Machine: uint16(elf.EM_X86_64), Version: 1,
		Entry: base + head, Phoff: 64, Ehsize: 64, Phentsize: 56, Phnum: 1,
	}
	p := elf.Prog64{Type: uint32(elf.PT_LOAD), Flags: uint32(elf.PF_R | elf.PF_X), Vaddr: base, Paddr: base, Filesz: size, Memsz: size, Align: 0x1000}
	var b bytes.Buffer
	for _, part := range []any{h, p, code} {
		_ = binary.Write(&b, binary.LittleEndian, part) // memory
	}
	return b.Bytes()
}

func benchReveille(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	defer end()
	program := filepath.Join(t.TempDir(), "pause")
	if err := os.WriteFile(program, pauseProgram(), 0o755); err != nil {
		t.Fatal(err)
	}
	s := New(Config{
		Init: benchInit(t, ctx), Boot: "boot", Now: benchNow, Dir: t.TempDir(), Cgroups: Cgroups{Root: "/sys/fs/cgroup"},
		Log:     slog.New(slog.DiscardHandler),
		Prepare: func(context.Context, service.Service, service.Ref) (Prepared, error) { return Prepared{}, nil },
		Release: func(service.Ref) error { return nil },
		Bundle:  func(context.Context, Death) error { return nil },
		Changed: func() {},
	})
	go s.Run(ctx)

	before, begun := residentSelf(), time.Now()
	var wishes []Wish
	for n := range benchServices {
		wishes = append(wishes, Wish{Service: service.Service{
			Name: fmt.Sprintf("svc%03d", n), Command: []string{program}, Restart: service.Never,
			Stop: service.Stop{Signal: syscall.SIGTERM, Timeout: time.Second},
		}})
	}
	if err := s.Desire(ctx, wishes); err != nil {
		t.Fatal(err)
	}
	for s.count(Running) < benchServices {
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("%d services run after %.1f s", benchServices, time.Since(begun).Seconds())
	t.Logf("memory of init and agent: %.1f KiB a service", float64(residentSelf()-before)/benchServices)

	used := processorSelf()
	time.Sleep(benchSteady)
	load := 100 * (processorSelf() - used).Seconds() / benchSteady.Seconds()
	t.Logf("at rest: %.2f %% of one processor", load)
	if load > targetCPU {
		t.Errorf("that is more than %.0f %%", targetCPU)
	}

	var took []time.Duration
	for n := range benchDeaths {
		took = append(took, s.killed(fmt.Sprintf("svc%03d", n)))
	}
	p99 := report(t, "a death is known", took)
	if p99 > targetDeath {
		t.Errorf("p99 is above %s", targetDeath)
	}
	if err := s.Desire(ctx, nil); err != nil {
		t.Fatal(err)
	}
	for s.count(Running)+s.count(Stopping)+s.count(Cleaning) > 0 {
		time.Sleep(10 * time.Millisecond)
	}
}

// killed kills a service's process and returns when the machine knows.
func (s *Supervisor) killed(name string) time.Duration {
	s.mu.Lock()
	ref := s.machine.units[name].Ref
	s.mu.Unlock()
	procs, _ := os.ReadFile(filepath.Join(s.Cgroups.Path(ref), "cgroup.procs"))
	pid, _ := strconv.Atoi(strings.TrimSpace(string(procs)))
	begun := time.Now()
	_ = syscall.Kill(pid, syscall.SIGKILL)
	for s.stateOf(name) == Running {
		time.Sleep(200 * time.Microsecond)
	}
	return time.Since(begun)
}

func (s *Supervisor) stateOf(name string) State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.machine.units[name].State
}

func (s *Supervisor) count(state State) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, u := range s.machine.units {
		if u.State == state {
			n++
		}
	}
	return n
}

// benchInit is init's part: its table behind its control socket.
func benchInit(t *testing.T, ctx context.Context) *proc.Client {
	table := proc.NewTable(benchNow, benchLauncher(t))
	sigchld := make(chan os.Signal, 1)
	signal.Notify(sigchld, syscall.SIGCHLD)
	go table.Reap(ctx, sigchld)
	read := func(r io.Reader) { _, _ = io.Copy(io.Discard, r) }
	ops := map[string]proc.Handler{
		proc.OpStart: proc.Handle(func(ctx context.Context, spec proc.Spec) (proc.Process, error) {
			return table.Start(ctx, spec, proc.Output{Stdout: read, Stderr: read})
		}),
		proc.OpSignal: proc.Handle(func(_ context.Context, to proc.Target) (proc.Nothing, error) {
			return proc.Nothing{}, table.Signal(to.Name, to.Incarnation, to.Signal)
		}),
		proc.OpList:  proc.Handle(func(context.Context, proc.Nothing) ([]proc.Process, error) { return table.List(), nil }),
		proc.OpExits: proc.Handle(func(ctx context.Context, q proc.ExitQuery) (proc.Exits, error) { return table.Exits(ctx, q.After) }),
		proc.OpDrained: func(ctx context.Context, body json.RawMessage) (any, error) {
			return proc.Nothing{}, nil
		},
	}
	server, client := net.Pipe()
	go func() { _ = proc.Serve(ctx, server, ops) }()
	t.Cleanup(func() { client.Close() })
	return proc.NewClient(client)
}

// benchLauncher is a node's, where the guest has it; else this program, which is
// slower.
func benchLauncher(t *testing.T) proc.Launcher {
	path := peers + "/launch"
	if _, err := os.Stat(path); err != nil {
		t.Log("no launch in the guest: make bench has it")
		path = "/proc/self/exe"
	}
	return proc.Launcher{Path: path, Mark: benchMark}
}

func benchNow() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &ts)
	return time.Duration(ts.Nano())
}

// benchRunit has runsvdir, and a runsv for each, run the same program.
func benchRunit(t *testing.T) {
	if _, err := os.Stat(peers + "/usr/bin/runsvdir"); err != nil {
		t.Skip("no runit in the guest: make bench has it")
	}
	dir := peers + "/run/services"
	for n := range benchServices {
		at := filepath.Join(dir, fmt.Sprintf("svc%03d", n))
		if err := os.MkdirAll(at, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(at+"/run", pauseProgram(), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	p, err := os.StartProcess("/usr/bin/runsvdir", []string{"runsvdir", "/run/services"}, &os.ProcAttr{
		Env: []string{"PATH=/usr/bin:/bin"}, Files: []*os.File{nil, nil, nil}, Sys: &syscall.SysProcAttr{Chroot: peers, Setsid: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = p.Signal(syscall.SIGHUP); _, _ = p.Wait() }() // it ends all runsv
	for len(called("run")) < benchServices {
		time.Sleep(10 * time.Millisecond)
	}
	t.Logf("%d services run after %.1f s", benchServices, time.Since(begun).Seconds())
	own := append(called("runsv"), called("runsvdir")...)
	private, used := 0, time.Duration(0)
	for _, pid := range own {
		private += residentOf(pid)
		used += processorOf(pid)
	}
	t.Logf("memory of runit: %.1f KiB a service", float64(private)/benchServices)
	time.Sleep(benchSteady)
	for _, pid := range own {
		used -= processorOf(pid)
	}
	t.Logf("at rest: %.2f %% of one processor", 100*-used.Seconds()/benchSteady.Seconds())
	var took []time.Duration
	for _, pid := range called("run")[:benchDeaths] {
		status := fmt.Sprintf("/proc/%d/task/%d/children", parentOf(pid), parentOf(pid))
		begun := time.Now()
		_ = syscall.Kill(pid, syscall.SIGKILL)
		for { // a death is known when another runs in its place
			children, _ := os.ReadFile(status)
			if now := strings.TrimSpace(string(children)); now != "" && now != strconv.Itoa(pid) {
				break
			}
			time.Sleep(200 * time.Microsecond)
		}
		took = append(took, time.Since(begun))
	}
	report(t, "a death is answered", took)
}

func report(t *testing.T, what string, took []time.Duration) (p99 time.Duration) {
	slices.Sort(took)
	p99 = took[len(took)*99/100]
	t.Logf("%s after %s (median), %s (p99), %s at most", what, took[len(took)/2].Round(10*time.Microsecond), p99.Round(10*time.Microsecond), took[len(took)-1].Round(10*time.Microsecond))
	return p99
}

func called(name string) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, f := range files {
		if text, _ := os.ReadFile(f); strings.TrimSpace(string(text)) == name {
			pid, _ := strconv.Atoi(strings.Split(f, "/")[2])
			pids = append(pids, pid)
		}
	}
	return pids
}

func stat(pid int) []string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(text), ") ")
	return append(strings.Fields(rest), make([]string, 20)...)
}

func parentOf(pid int) int { n, _ := strconv.Atoi(stat(pid)[1]); return n }

func processorOf(pid int) time.Duration {
	f := stat(pid)
	user, _ := strconv.Atoi(f[11])
	system, _ := strconv.Atoi(f[12])
	return time.Duration(user+system) * 10 * time.Millisecond // USER_HZ
}

func processorSelf() time.Duration {
	var u unix.Rusage
	_ = unix.Getrusage(unix.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

func residentSelf() int { return residentOf(os.Getpid()) }

// residentOf is the memory of a process that it shares with nobody, KiB.
func residentOf(pid int) (kib int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(text)) {
		_, _ = fmt.Sscanf(line, "RssAnon: %d kB", &kib)
	}
	return kib
}
