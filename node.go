package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/clusterv1/clusterv1connect"
	"reveille/boot/cluster/operator"
)

func nodeCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "node", Short: "Ask a cluster about its nodes"}
	cmd.AddCommand(nodeListCommand(), nodeShowCommand(), nodeRemoveCommand(), nodeLogsCommand(), nodeAttachCommand(), nodeBundleCommand())
	return cmd
}

func nodeListCommand() *cobra.Command {
	format := operator.Table
	cmd := &cobra.Command{
		Use:   "list",
		Short: "List all nodes, removed ones included",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ask(cmd, "list nodes", func(ctx context.Context, c clusterv1connect.OperatorServiceClient) error {
				resp, err := c.ListNodes(ctx, &clusterv1.ListNodesRequest{})
				if err != nil {
					return err
				}
				nodes := operator.NodesOf(resp)
				return format.Write(cmd.OutOrStdout(), nodes, func(w io.Writer) error { return operator.WriteNodes(w, nodes, time.Now()) })
			})
		},
	}
	cmd.Flags().VarP(&format, "output", "o", operator.Formats)
	return cmd
}

func nodeShowCommand() *cobra.Command {
	format := operator.Table
	cmd := &cobra.Command{
		Use:   "show NAME",
		Short: "Show all about one node",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(cmd, "show node "+args[0], func(ctx context.Context, c clusterv1connect.OperatorServiceClient) error {
				resp, err := c.GetNode(ctx, &clusterv1.GetNodeRequest{Name: args[0]})
				if err != nil {
					return err
				}
				node := operator.NodeOf(resp.GetNode())
				return format.Write(cmd.OutOrStdout(), node, func(w io.Writer) error { return operator.WriteNode(w, node, time.Now()) })
			})
		},
	}
	cmd.Flags().VarP(&format, "output", "o", operator.Formats)
	return cmd
}

func nodeRemoveCommand() *cobra.Command {
	format := operator.Table
	cmd := &cobra.Command{
		Use:   "remove NAME",
		Short: "Remove a node: it may not join again, its name is free",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(cmd, "remove node "+args[0], func(ctx context.Context, c clusterv1connect.OperatorServiceClient) error {
				if _, err := c.RemoveNode(ctx, &clusterv1.RemoveNodeRequest{Name: args[0]}); err != nil {
					return err
				}
				removed := operator.Removed{Name: args[0], State: "removed"}
				return format.Write(cmd.OutOrStdout(), removed, removed.WriteTable)
			})
		},
	}
	cmd.Flags().VarP(&format, "output", "o", operator.Formats)
	return cmd
}

func nodeLogsCommand() *cobra.Command {
	format := operator.Table
	var logs clusterv1.LogsRequest
	cmd := &cobra.Command{
		Use:   "logs NAME",
		Short: "Show a node's log, fetched from the node",
		Long: `Show a node's log, fetched from the node. With -o json there is one object
a line, with -o yaml one document a record.`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			client, err := operatorClient(cmd)
			if err != nil {
				return err
			}
			req := &clusterv1.NodeLogsRequest{Node: args[0], Logs: &logs}
			if err := operator.CopyLogs(cmd.Context(), client, req, format, cmd.OutOrStdout()); err != nil {
				return operator.Explain("read log of node "+args[0], err)
			}
			return nil
		},
	}
	f := cmd.Flags()
	f.VarP(&format, "output", "o", operator.Formats)
	f.BoolVarP(&logs.Follow, "follow", "f", false, "go on with new records until interrupted")
	f.StringSliceVar(&logs.Origins, "origin", nil, "show only these origins (netcfg, join, ...)")
	f.StringVar(&logs.Level, "level", "", "show only this level and above: debug, info, warn, error")
	f.Uint64Var(&logs.Tail, "tail", 0, "begin with the last N records (default: all)")
	return cmd
}
