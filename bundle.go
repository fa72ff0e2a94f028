package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/clusterv1/clusterv1connect"
	"reveille/boot/cluster/operator"
)

func nodeBundleCommand() *cobra.Command {
	format := operator.Table
	var out, core string
	cmd := &cobra.Command{
		Use:   "bundle NAME [ID]",
		Short: "List the crash records that a node has sent, or show one",
		Long: `List the crash records that a node has sent, oldest first, or show one: why and
where it died, the trace, the end of the log before it, and what the kernel
kept. A node sends them when it has joined again; the cluster keeps the last 16,
and the last 16 of services.`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var text bytes.Buffer
			var err error
			if len(args) == 1 {
				err = listBundles(cmd, &text, format, args[0])
			} else {
				err = showBundle(cmd, &text, format, args[0], args[1], core)
			}
			if err != nil {
				return err
			}
			return writeOut(cmd, out, text.Bytes())
		},
	}
	cmd.Flags().VarP(&format, "output", "o", "output format: text, json or yaml")
	cmd.Flags().StringVar(&out, "out", "", "write to this file instead")
	cmd.Flags().StringVar(&core, "core", "", "write what there is of the service's core dump to this file")
	return cmd
}

func listBundles(cmd *cobra.Command, w io.Writer, format operator.Format, node string) error {
	return ask(cmd, "list bundles of node "+node, func(ctx context.Context, c clusterv1connect.OperatorServiceClient) error {
		resp, err := c.ListBundles(ctx, &clusterv1.ListBundlesRequest{Node: node})
		if err != nil {
			return err
		}
		bundles := operator.BundlesOf(resp)
		return format.Write(w, bundles, func(w io.Writer) error { return operator.WriteBundles(w, node, bundles, time.Now()) })
	})
}

func showBundle(cmd *cobra.Command, w io.Writer, format operator.Format, node, id, core string) error {
	return ask(cmd, "get bundle "+id+" of node "+node, func(ctx context.Context, c clusterv1connect.OperatorServiceClient) error {
		resp, err := c.GetBundle(ctx, &clusterv1.GetBundleRequest{Node: node, Id: id})
		if err != nil {
			return err
		}
		record, err := operator.CrashRecordOf(resp)
		if err != nil {
			return err
		}
		if core != "" {
			if err := writeCore(core, record); err != nil {
				return err
			}
		}
		return format.Write(w, record, record.WriteText)
	})
}

// writeCore writes a file that only its owner may read: memory holds secrets.
func writeCore(name string, r operator.CrashRecord) error {
	if r.CoreBytes == 0 {
		return fmt.Errorf("bundle %s has no core", r.ID)
	}
	if err := os.WriteFile(name, r.Core, 0o600); err != nil {
		return fmt.Errorf("write core: %w", err)
	}
	return nil
}

// writeOut writes to the named file, which only its owner may read, or without
// a name to the command's output.
func writeOut(cmd *cobra.Command, name string, text []byte) error {
	if name == "" {
		_, err := cmd.OutOrStdout().Write(text)
		return err
	}
	if err := os.WriteFile(name, text, 0o600); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}
