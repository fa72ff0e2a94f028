package main

import (
	"context"
	"io"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/protobuf/types/known/durationpb"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/clusterv1/clusterv1connect"
	"reveille/boot/cluster/operator"
)

func ticketCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "ticket", Short: "Make tickets that let nodes enrol"}
	cmd.AddCommand(ticketCreateCommand())
	return cmd
}

func ticketCreateCommand() *cobra.Command {
	format := operator.Table
	var ttl time.Duration
	var node string
	cmd := &cobra.Command{
		Use:   "create",
		Short: "Make a ticket: it lets one node enrol, once",
		Long:  "Make a ticket: it lets one node enrol, once. It is shown now and never again.",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return ask(cmd, "create ticket", func(ctx context.Context, c clusterv1connect.OperatorServiceClient) error {
				resp, err := c.CreateTicket(ctx, &clusterv1.CreateTicketRequest{Ttl: durationpb.New(ttl), Node: node})
				if err != nil {
					return err
				}
				t := operator.TicketOf(resp)
				return format.Write(cmd.OutOrStdout(), t, func(w io.Writer) error { return operator.WriteTicket(w, t, time.Now()) })
			})
		},
	}
	cmd.Flags().VarP(&format, "output", "o", operator.Formats)
	cmd.Flags().DurationVar(&ttl, "ttl", 24*time.Hour, "time until it expires unused")
	cmd.Flags().StringVar(&node, "node", "", "the only node that may use it")
	return cmd
}

// A controller answers in milliseconds; three dead ones before it cost 3 s each.
const askTimeout = 30 * time.Second

// ask loads the operator context and calls the cluster; doing says for what,
// in the error.
func ask(cmd *cobra.Command, doing string, call func(context.Context, clusterv1connect.OperatorServiceClient) error) error {
	client, err := operatorClient(cmd)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(cmd.Context(), askTimeout)
	defer cancel()
	if err := call(ctx, client); err != nil {
		return operator.Explain(doing, err)
	}
	return nil
}

func operatorClient(cmd *cobra.Command) (clusterv1connect.OperatorServiceClient, error) {
	path, err := cmd.Flags().GetString("context")
	if err != nil {
		return nil, err
	}
	c, err := operator.Load(path)
	if err != nil {
		return nil, err
	}
	return c.Client(), nil
}
