//go:build faults

package pid1

import (
	"context"
	"fmt"
	"os"
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
