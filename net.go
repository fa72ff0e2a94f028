package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"

	"github.com/spf13/cobra"
	"go.yaml.in/yaml/v3"

	"reveille/netcfg"
)

// The exit codes of `net check`, and of `net plan` and `net apply` for a
// document that does not compile.
const (
	exitInvalid     = 2
	exitUnsupported = 3
)

// leaseDir keeps what apply leased, so that the next one need not ask again.
const leaseDir = "/run/reveille/leases"

func netCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "net",
		Short: "Check, plan and apply a netplan document on this machine",
		Long: "Check, plan and apply a netplan version 2 document.\n" +
			"Exit status: 0 done, 1 failed, 2 the document is invalid, 3 it is valid netplan that we do not support.",
	}
	cmd.AddCommand(netCheckCommand(), netPlanCommand(), netApplyCommand(), netObserveCommand())
	return cmd
}

func netObserveCommand() *cobra.Command {
	var resolvConf string
	cmd := &cobra.Command{
		Use:   "observe",
		Short: "Print the state of the network as a file that `net plan --state` reads",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			have, err := netcfg.Observe(cmd.Context(), resolvConf)
			if err != nil {
				return err
			}
			text, err := yaml.Marshal(have)
			if err != nil {
				return fmt.Errorf("print the state of the network: %w", err)
			}
			_, err = cmd.OutOrStdout().Write(text)
			return err
		},
	}
	resolvConfFlag(cmd, &resolvConf)
	return cmd
}

func netPlanCommand() *cobra.Command {
	var resolvConf, state string
	var why bool
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "Print the operations that apply would do now, or `converged`",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			cfg, err := readNetwork(args[0])
			if err != nil {
				return err
			}
			have, err := observed(cmd.Context(), state, resolvConf)
			if err != nil {
				return err
			}
			cfg = cfg.Leased(leaseDir, have)
			printOps(cmd.OutOrStdout(), netcfg.Plan(cfg, have), why)
			for _, w := range netcfg.Waits(cfg, have) {
				fmt.Fprintln(cmd.ErrOrStderr(), w)
			}
			return nil
		},
	}
	resolvConfFlag(cmd, &resolvConf)
	cmd.Flags().BoolVar(&why, "why", false, "say behind each operation what is there instead, or what needs it")
	cmd.Flags().StringVar(&state, "state", "", "plan from this file, which `reveille net observe` wrote, not from this machine")
	return cmd
}

// observed is the state in the file, or without one this machine's.
func observed(ctx context.Context, file, resolvConf string) (netcfg.State, error) {
	if file == "" {
		return netcfg.Observe(ctx, resolvConf)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return netcfg.State{}, err
	}
	return netcfg.ReadState(file, text)
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
			report, err := netcfg.New(cfg, log, netcfg.Options{ResolvConf: resolvConf, Leases: leaseDir}).Converge(cmd.Context())
			printOps(cmd.OutOrStdout(), report.Ops, false)
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

func printOps(w io.Writer, ops []netcfg.Op, why bool) {
	if len(ops) == 0 {
		fmt.Fprintln(w, "converged")
	}
	for _, op := range ops {
		if why && op.Why != "" {
			fmt.Fprintf(w, "%s  # %s\n", op, op.Why)
			continue
		}
		fmt.Fprintln(w, op)
	}
}
