//go:build faults

package boot

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"reveille/boot/proc"
)

// faults by name. Those of the agent strike its first incarnation only, or the
// boot would never end.
var faults = map[string]func(*Node){
	"agent-panic":     func(*Node) { panic("fault: agent-panic") },
	"agent-error":     func(*Node) { panic(&os.PathError{Op: "open", Path: "/fault", Err: syscall.EIO}) },
	"agent-goroutine": func(*Node) { go func() { panic("fault: agent-goroutine") }(); forEver() },
	"agent-nil":       func(*Node) { var none *Node; none.incarnation++ },
	"agent-maprace":   func(*Node) { raceOnMap() },
	"agent-stack":     func(*Node) { crowd(5000, 10); os.Exit(overflow(0)) },
	"agent-oom":       func(*Node) { eat(unix.RLIMIT_AS) },
	"agent-oomkill":   func(*Node) { eat(-1) },
	"agent-segv":      func(*Node) { killSelf(syscall.SIGSEGV) },
	"agent-sigill":    func(*Node) { killSelf(syscall.SIGILL) },
	"agent-sigbus":    func(*Node) { touchNothing() },
	"agent-kill":      (*Node).lastWords,
	"agent-exit":      func(*Node) { os.Exit(2) },
	"agent-hang":      func(*Node) { killSelf(syscall.SIGSTOP) },
	"agent-asleep":    func(*Node) { select {} },                                       // the runtime sees it only at the point "start"
	"agent-deadlock":  func(n *Node) { crowd(2500, 10); n.track.mu.Lock(); forEver() }, // a dump over 1 MiB
	"init-panic":      func(n *Node) { n.once("panic") },
	"init-exit":       func(n *Node) { n.once("exit") },
	"init-stop":       func(n *Node) { time.Sleep(10 * time.Second); n.once("stop") }, // the watchdog is armed then
	"flood":           func(n *Node) { n.child("flood", "200000") },
	"flood10MB":       func(n *Node) { n.child("flood", "10000000") },
	"flood50MB":       func(n *Node) { n.child("flood", "50000000") },
	"watch":           func(n *Node) { n.child("watch") },
	"fatal":           func(n *Node) { n.logger("fault").Error("fault: fatal") },

	everyTime:        func(*Node) { panic("fault: " + everyTime) },
	"init-term":      func(n *Node) { n.once("term") },
	"init-pwr":       func(n *Node) { n.once("pwr") },
	"init-stop-late": func(n *Node) { _ = n.init.Fault(context.Background(), "stop-late") },
	"deaf":           func(n *Node) { n.child("deaf") },
	"frozen":         func(n *Node) { n.child("frozen"); n.freeze("frozen") },
	stormKind:        (*Node).storm,
}

// everyTime strikes every incarnation, and so does stormKind.
const everyTime = "agent-loop"

// fault does what reveille.fault= names for this point of the boot:
// "kind@point", several with commas. A point is a stage's name, "network-half":
// after the first operation of the network, or "start": see FaultAtStart.
func (n *Node) fault(point string) {
	for f := range strings.SplitSeq(n.settings.Fault, ",") {
		kind, at, _ := strings.Cut(f, "@")
		if at != point || n.incarnation != 1 && kind != everyTime && kind != stormKind {
			continue
		}
		n.logger("fault").Warn("injecting " + f)
		n.tellStage()
		if strike, ok := faults[kind]; ok {
			strike(n)
		} else {
			n.logger("fault").Error("no such fault: " + kind)
		}
	}
}

// FaultAtStart strikes an agent that has done nothing yet: it has opened no
// socket, and nothing of its boot is mounted.
func FaultAtStart() {
	n := &Node{logger: func(string) *slog.Logger { return slog.New(slog.DiscardHandler) }}
	n.settings = n.readSettings()
	if os.Getenv("REVEILLE_INCARNATION") == "1" {
		n.incarnation = 1
	}
	n.fault("start")
}

// lastWords logs as fast as it can, and is killed right after the last record.
func (n *Node) lastWords() {
	log := n.logger("fault")
	for i := range 100 {
		log.Info(fmt.Sprintf("last word %d of 100", i+1))
	}
	killSelf(syscall.SIGKILL)
}

// tellStage has init know of the stage that a fault strikes in: a report of its
// own may be on its way.
func (n *Node) tellStage() {
	if n.init == nil {
		return // at the start
	}
	stage, waiting := n.track.Now()
	_ = n.init.SetStage(context.Background(), proc.Progress{Stage: stage, Waiting: waiting}) // without an answer it knows what it knows
}

func killSelf(sig syscall.Signal) { _ = syscall.Kill(os.Getpid(), sig) }

// forEver waits for the death that is sure to come.
func forEver() { time.Sleep(time.Hour) }

// raceOnMap writes one map from many goroutines until the runtime notices,
// which is a throw: no recover helps.
func raceOnMap() {
	m := map[int]int{}
	for range 8 {
		go func() {
			for i := 0; ; i++ {
				m[i%8] = i
			}
		}()
	}
	forEver()
}

// crowd makes goroutines, each so many frames deep, which a trace shows.
func crowd(goroutines, frames int) {
	for range goroutines {
		go descend(frames)
	}
}

func descend(frames int) {
	if frames == 0 {
		forEver()
		return
	}
	descend(frames - 1)
}

// overflow recurses for far longer than any stack lasts.
func overflow(n int) int {
	if n < 0 {
		return n
	}
	return overflow(n+1) + 1
}

// eat takes memory until there is none: of this process by a limit, or of the
// machine.
func eat(limit int) {
	if limit >= 0 {
		_ = unix.Setrlimit(limit, &unix.Rlimit{Cur: 1, Max: 1}) // all from now on is too much
	}
	var all [][]byte
	for {
		all = append(all, slices.Repeat([]byte{1}, 16<<20))
		runtime.KeepAlive(all)
	}
}

// touchNothing reads a mapped page that its file does not have: SIGBUS.
func touchNothing() {
	fd, err := unix.MemfdCreate("nothing", 0)
	if err != nil {
		panic(err)
	}
	page, err := unix.Mmap(fd, 0, os.Getpagesize(), unix.PROT_READ, unix.MAP_SHARED)
	if err != nil {
		panic(err)
	}
	_ = os.Getenv(string(page[:1]))
}

// once strikes init in one boot only: the state partition remembers it.
func (n *Node) once(kind string) {
	mark := filepath.Join(stateDir, "fault."+kind)
	f, err := os.OpenFile(mark, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		n.logger("fault").Warn("not again: " + err.Error())
		return
	}
	err = f.Sync()
	f.Close()
	n.logger("fault").Warn(fmt.Sprint("marked, ", err, "; asking init for it"))
	_ = n.init.Fault(context.Background(), kind) // no answer comes
	forEver()
}

// freeze stops a child: then it hears nothing at all.
func (n *Node) freeze(name string) {
	err := n.init.Signal(context.Background(), proc.Target{Name: name, Incarnation: 1, Signal: syscall.SIGSTOP})
	if err != nil {
		n.logger("fault").Error("freeze " + name + ": " + err.Error())
	}
}

// child has init run what init/extra.go knows by that name, beside the boot: by
// another path than init's, so that it is launched as a service is.
func (n *Node) child(name string, args ...string) {
	own, err := os.Executable() // by its name: to a launcher /proc/self/exe is the launcher
	if err == nil {
		_, err = n.init.Start(context.Background(), proc.Spec{
			Name: name, Incarnation: 1, Path: own, Argv: append([]string{"init", name}, args...),
		})
	}
	if err != nil {
		n.logger("fault").Error("start " + name + ": " + err.Error())
	}
}
