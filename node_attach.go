package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/operator"
)

func nodeAttachCommand() *cobra.Command {
	req := &clusterv1.AttachRequest{}
	cmd := &cobra.Command{
		Use:   "attach NAME SERVICE",
		Short: "Follow the output of a node's service, and type into its terminal",
		Long: `Follow the output of a node's service, and type into it if it has a terminal
(^] leaves). It ends with the reason, and a status other than 0, when that
incarnation of the service is gone, or the instance that --instance names: a
process that follows it knows nothing of the one before.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := operatorClient(cmd)
			if err != nil {
				return err
			}
			req.Node, req.Service = args[0], args[1]
			ctx, leave := context.WithCancel(cmd.Context())
			defer leave()
			a := operator.Attachment{Request: req, Out: cmd.OutOrStdout()}
			a.Begin = func(at *clusterv1.Attached, send func(*clusterv1.AttachRequest) error) func() {
				fmt.Fprintf(cmd.ErrOrStderr(), "attached to %s, incarnation %d\n", args[1], at.GetIncarnation())
				if !at.GetTerminal() {
					return func() {}
				}
				return typeInto(ctx, send, leave)
			}
			if err := a.Run(ctx, client); err != nil {
				return operator.Explain("attach to "+args[1]+" on node "+args[0], err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.Uint64Var(&req.Incarnation, "incarnation", 0, "only to this one (default: the one that runs)")
	f.StringVar(&req.Instance, "instance", "", "end as well when the service no longer has this instance")
	f.Uint64Var(&req.Tail, "tail", 20, "begin with the last N lines (0: with all that the node has); a terminal with what it last showed")
	return cmd
}

// leaveKey is ^], as telnet has it: programs want all others.
const leaveKey = 0x1d

// typeInto sends what comes on stdin, and the size if it is a terminal, until
// ctx ends. What it returns makes the terminal as it was.
func typeInto(ctx context.Context, send func(*clusterv1.AttachRequest) error, leave func()) (end func()) {
	fd, end := int(os.Stdin.Fd()), func() {}
	resized := make(chan os.Signal, 1)
	before, err := term.MakeRaw(fd)
	raw := err == nil // else it is a file or a pipe, or to be read from and no more
	if raw {
		signal.Notify(resized, syscall.SIGWINCH)
		resized <- syscall.SIGWINCH // the first size
		end = func() {
			signal.Stop(resized)
			_ = term.Restore(fd, before) // it was possible a moment ago
			fmt.Println()
		}
	}
	typed := make(chan []byte)
	go readKeys(ctx, typed)
	go func() {
		for {
			m := &clusterv1.AttachRequest{}
			select {
			case <-ctx.Done():
				return
			case <-resized:
				m.Size = sizeOf(fd)
			case m.Input = <-typed:
				if raw && bytes.IndexByte(m.Input, leaveKey) >= 0 {
					leave()
					return
				}
			}
			if send(m) != nil {
				return // the output says why
			}
		}
	}()
	return end
}

func sizeOf(fd int) *clusterv1.TerminalSize {
	columns, rows, err := term.GetSize(fd)
	if err != nil {
		return nil
	}
	return &clusterv1.TerminalSize{Rows: uint32(rows), Columns: uint32(columns)}
}

// readKeys ends with the program: a read of a terminal cannot be ended.
func readKeys(ctx context.Context, typed chan<- []byte) {
	for {
		keys := make([]byte, 4096)
		n, err := os.Stdin.Read(keys)
		if err != nil {
			return
		}
		select {
		case typed <- keys[:n]:
		case <-ctx.Done():
			return
		}
	}
}
