package main

import "github.com/spf13/cobra"

func netCommand() *cobra.Command { return &cobra.Command{Use: "net"} }
