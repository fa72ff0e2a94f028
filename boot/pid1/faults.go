//go:build faults

package pid1

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync/atomic"
	"syscall"

	"reveille/boot/proc"
)

// stopLate has init stand still in its ordered stop.
var stopLate atomic.Bool

func strikeStop() {
	if stopLate.Load() {
		_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
	}
}

// injected are init's own faults, with commas: REVEILLE_FAULT= on the kernel's
// command line. The kernel hands a word that it does not know to /init as
// environment (init/main.c), so it is there before /proc is.
func injected(kind string) bool {
	for f := range strings.SplitSeq(os.Getenv("REVEILLE_FAULT"), ",") {
		if f == kind {
			return true
		}
	}
	return false
}

// tolerant is an init that starts its agent again as soon, and as often, as it dies.
func tolerant() bool { return injected("tolerant") }

// faultAtStart strikes an init that has done nothing yet.
func faultAtStart() {
	if injected("init-panic") {
		panic("fault: init-panic at the start")
	}
}

// agentProgram is what is executed as the agent: once a file that is no program.
func agentProgram(program string, incarnation uint64) string {
	if !injected("agent-exec") || incarnation > 1 {
		return program
	}
	const none = "/run/no-program"
	if err := os.WriteFile(none, []byte("no program"), 0o755); err != nil {
		panic(err)
	}
	return none
}

// faults adds what only tests ask init for.
func faults(ops map[string]proc.Handler) map[string]proc.Handler {
	ops[proc.OpFault] = proc.Handle(func(_ context.Context, f proc.Fault) (proc.Nothing, error) {
		switch f.Kind {
		case "panic":
			panic("fault: init-panic")
		case "exit":
			os.Exit(3)
		case "stop": // the warden sees no death: only the watchdog ends this
			_ = syscall.Kill(os.Getpid(), syscall.SIGSTOP)
		case "stop-late":
			stopLate.Store(true)
			return proc.Nothing{}, nil
		case "term":
			_ = syscall.Kill(1, syscall.SIGTERM)
		case "pwr":
			_ = syscall.Kill(1, syscall.SIGPWR)
		}
		return proc.Nothing{}, fmt.Errorf("no such fault: %q", f.Kind)
	})
	return ops
}
