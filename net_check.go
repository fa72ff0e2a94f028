package main

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"reveille/netcfg"
)

func netCheckCommand() *cobra.Command {
	var table bool
	cmd := &cobra.Command{
		Use:   "check FILE...",
		Short: "Say everything that is wrong with a document, each with its line",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			var errs checkErrors
			for _, path := range args {
				_, err := readNetwork(path)
				if err != nil {
					errs = append(errs, err)
				}
				if table {
					fmt.Fprintf(cmd.OutOrStdout(), "| %s | %s |\n", filepath.Base(path), verdict(err))
				}
			}
			return errs.sum(table)
		},
	}
	cmd.Flags().BoolVar(&table, "table", false, "print one line for each document: what we do with it")
	return cmd
}

// checkErrors is what is wrong with several documents.
type checkErrors []error

// sum is one error with the gravest of their exit codes: 1 before 2 before 3.
// A table has told the details already.
func (errs checkErrors) sum(told bool) error {
	if len(errs) == 0 {
		return nil
	}
	worst := exitCode{exitUnsupported, errors.Join(errs...)}
	for _, err := range errs {
		var e exitCode
		if !errors.As(err, &e) {
			e.code = 1
		}
		worst.code = min(worst.code, e.code)
	}
	if told {
		worst.err = fmt.Errorf("%d documents do not plan", len(errs))
	}
	return worst
}

// verdict is what becomes of a document in a few words: the last keys of what
// is wrong with it.
func verdict(err error) string {
	var ps netcfg.Problems
	if !errors.As(err, &ps) {
		if err != nil {
			return err.Error()
		}
		return "plans"
	}
	word, keys := "unsupported", []string{}
	if ps.Invalid() {
		word = "invalid"
	}
	for _, p := range ps {
		if (p.Kind == netcfg.Invalid) != ps.Invalid() {
			continue
		}
		key := p.Key[strings.LastIndex(p.Key, ".")+1:]
		key, _, _ = strings.Cut(key, "[")
		if key = cmp.Or(key, p.Text); !slices.Contains(keys, key) {
			keys = append(keys, key)
		}
	}
	return word + ": " + strings.Join(keys, ", ")
}
