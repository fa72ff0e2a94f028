package main

import (
	"fmt"
	"log/slog"

	"github.com/spf13/cobra"

	"reveille/boot/cluster"
)

func controllerCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "controller", Short: "Run a cluster's controller"}
	cmd.AddCommand(controllerRunCommand())
	return cmd
}

func controllerRunCommand() *cobra.Command {
	var cfg cluster.Config
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Serve nodes and operators until a signal ends it",
		Long: `Serve nodes and operators until SIGINT or SIGTERM.

Prints one line on standard output once it serves:
  controller ready listen=HOST:PORT ca=sha256:HEX
and leaves an operator context in DIR/operator.yaml. The log goes to standard
error. DIR may be used again after any kind of end.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Log = slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			cfg.Ready = func(r cluster.Ready) {
				fmt.Fprintf(cmd.OutOrStdout(), "controller ready listen=%s ca=%s\n", r.Listen, r.CA)
			}
			return cluster.Run(cmd.Context(), cfg)
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.DataDir, "data", "", "directory of this controller's data (made if absent)")
	f.StringVar(&cfg.Listen, "listen", ":7443", "address to listen on; port 0 chooses one")
	f.StringArrayVar(&cfg.Advertise, "advertise", nil, "host:port that nodes dial, port 0 means the one listened on; repeatable (default: the listen address, or those of the interfaces)")
	f.StringVar(&cfg.Name, "name", "", "name in the directory, one DNS label (default: the host's name)")
	f.StringSliceVar(&cfg.Etcd.Endpoints, "etcd-endpoints", nil, "external etcd cluster to use instead of the embedded etcd; trusted with the cluster's CA key")
	f.StringVar(&cfg.Etcd.CAFile, "etcd-cacert", "", "PEM file of the CA of the external etcd")
	f.StringVar(&cfg.Etcd.Cert, "etcd-cert", "", "PEM file of our certificate for the external etcd")
	f.StringVar(&cfg.Etcd.KeyFile, "etcd-key", "", "PEM file of the key of --etcd-cert")
	cobra.CheckErr(cmd.MarkFlagRequired("data"))
	return cmd
}
