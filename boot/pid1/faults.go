//go:build faults

package pid1

import (
	"context"
	"fmt"
	"os"
	"syscall"

	"reveille/boot/proc"
)

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
		}
		return proc.Nothing{}, fmt.Errorf("no such fault: %q", f.Kind)
	})
	return ops
}
