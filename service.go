package main

import (
	"context"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/clusterv1/clusterv1connect"
	"reveille/boot/cluster/operator"
)

func serviceCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "service", Short: "Say what services a node runs"}
	cmd.AddCommand(serviceApplyCommand(), serviceListCommand(),
		serviceOrderCommand("start", "Start a service: a new incarnation, also of one that is never restarted", clusterv1.OrderServiceRequest_ORDER_START),
		serviceOrderCommand("stop", "Stop a service until it is started by name", clusterv1.OrderServiceRequest_ORDER_STOP),
		serviceOrderCommand("remove", "Stop a service and remove its definition", clusterv1.OrderServiceRequest_ORDER_REMOVE))
	return cmd
}

func serviceApplyCommand() *cobra.Command {
	format := operator.Table
	var prune bool
	cmd := &cobra.Command{
		Use:   "apply NODE FILE",
		Short: "Make a document the node's desired configuration",
		Long: `Make a document the node's desired configuration, beside what its node.yaml
defines; docs/services.md has the keys. It is checked whole, and each problem
printed as file:line:col: key: text. FILE may be - for standard input.

Exit status: 0 when it was taken, 2 when it is invalid, 1 when it was not taken
for another reason.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			node, file := args[0], args[1]
			text, err := readDocument(cmd, file)
			if err != nil {
				return err
			}
			return ask(cmd, "apply services to node "+node, func(ctx context.Context, c clusterv1connect.OperatorServiceClient) error {
				resp, err := c.ApplyServices(ctx, &clusterv1.ApplyServicesRequest{Node: node, File: file, Document: text, Prune: prune})
				if err != nil {
					return err
				}
				if err := operator.ProblemsOf(resp); err != nil {
					return checkResult(cmd, file, err)
				}
				applied := operator.AppliedOf(node, resp)
				return format.Write(cmd.OutOrStdout(), applied, applied.WriteTable)
			})
		},
	}
	cmd.Flags().VarP(&format, "output", "o", operator.Formats)
	cmd.Flags().BoolVar(&prune, "prune", false, "remove the services that FILE lacks")
	return cmd
}

// readDocument reads a file, or standard input for "-".
func readDocument(cmd *cobra.Command, file string) ([]byte, error) {
	if file == "-" {
		return io.ReadAll(cmd.InOrStdin())
	}
	return os.ReadFile(file)
}

func serviceListCommand() *cobra.Command {
	format := operator.Table
	cmd := &cobra.Command{
		Use:   "list NODE",
		Short: "List what a node is to run, and how it is",
		Args:  cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return ask(cmd, "list services of node "+args[0], func(ctx context.Context, c clusterv1connect.OperatorServiceClient) error {
				resp, err := c.ListServices(ctx, &clusterv1.ListServicesRequest{Node: args[0]})
				if err != nil {
					return err
				}
				list := operator.DesiredOf(args[0], resp)
				return format.Write(cmd.OutOrStdout(), list, list.WriteTable)
			})
		},
	}
	cmd.Flags().VarP(&format, "output", "o", operator.Formats)
	return cmd
}

func serviceOrderCommand(verb, short string, order clusterv1.OrderServiceRequest_Order) *cobra.Command {
	format := operator.Table
	cmd := &cobra.Command{
		Use:   verb + " NODE SERVICE",
		Short: short,
		Args:  cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			doing := fmt.Sprintf("%s service %s of node %s", verb, args[1], args[0])
			return ask(cmd, doing, func(ctx context.Context, c clusterv1connect.OperatorServiceClient) error {
				resp, err := c.OrderService(ctx, &clusterv1.OrderServiceRequest{Node: args[0], Service: args[1], Order: order})
				if err != nil {
					return err
				}
				ordered := operator.OrderedOf(args[0], args[1], verb, resp)
				return format.Write(cmd.OutOrStdout(), ordered, ordered.WriteTable)
			})
		},
	}
	cmd.Flags().VarP(&format, "output", "o", operator.Formats)
	return cmd
}
