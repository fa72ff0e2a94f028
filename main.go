// Command reveille is the operator's side: it builds images, runs a controller,
// and asks a cluster about its nodes. The node's side is in init/.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// exitCode lets a command choose its exit status: 0 done, 1 failed, others as
// its help says.
type exitCode struct {
	code int
	err  error
}

func (e exitCode) Error() string { return e.err.Error() }
func (e exitCode) Unwrap() error { return e.err }

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	root := &cobra.Command{
		Use:           "reveille",
		Short:         "Boot bare-metal machines into a cluster, and tell the truth about them",
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.PersistentFlags().String("context", os.Getenv("REVEILLE_CONTEXT"), "operator context file (env REVEILLE_CONTEXT)")
	root.AddCommand(controllerCommand(), ticketCommand(), nodeCommand(), serviceCommand(), netCommand(), configCommand(), imageCommand(), vmCommand())
	err := root.ExecuteContext(ctx)
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, "reveille:", err)
	var e exitCode
	if errors.As(err, &e) {
		os.Exit(e.code)
	}
	os.Exit(1)
}
