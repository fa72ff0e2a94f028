package main

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"reveille/netcfg"
)

// The exit codes of `net check`, and of `net plan` and `net apply` for a
// document that does not compile.
const (
	exitInvalid     = 2
	exitUnsupported = 3
)

func netCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "net",
		Short: "Check, plan and apply a netplan document on this machine",
		Long: "Check, plan and apply a netplan version 2 document.\n" +
			"Exit status: 0 done, 1 failed, 2 the document is invalid, 3 it is valid netplan that we do not support.",
	}
	cmd.AddCommand(netCheckCommand(), netPlanCommand(), netApplyCommand())
	return cmd
}

func netCheckCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "check FILE",
		Short: "Say everything that is wrong with a document, each with its line",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			_, err := readNetwork(args[0])
			return err
		},
	}
}

func netPlanCommand() *cobra.Command {
	var resolvConf string
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "Print the operations that apply would do now, or `converged`",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := readNetwork(args[0])
			if err != nil {
				return err
			}
			have, err := netcfg.Observe(cmd.Context(), resolvConf)
			if err != nil {
				return err
			}
			printOps(cmd.OutOrStdout(), netcfg.Plan(cfg, have))
			for _, w := range netcfg.Waits(cfg, have) {
				fmt.Fprintln(cmd.ErrOrStderr(), w)
			}
			return nil
		},
	}
	resolvConfFlag(cmd, &resolvConf)
	return cmd
}

func netApplyCommand() *cobra.Command {
	var resolvConf string
	cmd := &cobra.Command{
		Use:   "apply FILE",
		Short: "Make the network what the document says and print the operations done",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := readNetwork(args[0])
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
			report, err := netcfg.New(cfg, log, netcfg.Options{ResolvConf: resolvConf}).Converge(cmd.Context())
			printOps(cmd.OutOrStdout(), report.Ops)
			return err
		},
	}
	resolvConfFlag(cmd, &resolvConf)
	return cmd
}

func resolvConfFlag(cmd *cobra.Command, path *string) {
	cmd.Flags().StringVar(path, "resolv-conf", "/etc/resolv.conf", "file for the document's name servers; empty leaves it alone")
}

// readNetwork compiles the document; its error has the exit code.
func readNetwork(path string) (*netcfg.Config, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	cfg, err := netcfg.Parse(path, text)
	var problems netcfg.Problems
	switch {
	case !errors.As(err, &problems):
		return cfg, err
	case problems.Invalid():
		return nil, exitCode{exitInvalid, fmt.Errorf("%s is invalid:\n%w", path, err)}
	}
	return nil, exitCode{exitUnsupported, fmt.Errorf("%s asks for more than we support:\n%w", path, err)}
}

func printOps(w io.Writer, ops []netcfg.Op) {
	if len(ops) == 0 {
		fmt.Fprintln(w, "converged")
	}
	for _, op := range ops {
		fmt.Fprintln(w, op)
	}
}
