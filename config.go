package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"reveille/boot/params"
	"reveille/netcfg"
)

func configCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "config", Short: "Work with node parameters"}
	cmd.AddCommand(&cobra.Command{
		Use:   "check FILE",
		Short: "Check a node.yaml, and print each problem with its place",
		Long: `Check a node.yaml as a node will at boot, and print each problem as
file:line:col: key: text.

Exit status: 0 when a node can use it, 2 when it is invalid, 3 when it is valid
and asks for something that is not supported yet, 1 when it cannot be read.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			text, err := os.ReadFile(args[0])
			if err != nil {
				return err
			}
			_, err = params.Parse(args[0], text)
			return checkResult(cmd, args[0], err)
		},
	})
	return cmd
}

// checkResult prints the problems of a document and chooses the exit status.
func checkResult(cmd *cobra.Command, file string, err error) error {
	var problems netcfg.Problems
	if !errors.As(err, &problems) {
		return err
	}
	for _, p := range problems {
		fmt.Fprintln(cmd.OutOrStdout(), p)
	}
	code := 3
	if problems.Invalid() {
		code = 2
	}
	return exitCode{code, fmt.Errorf("check %s: %d problems", file, len(problems))}
}
