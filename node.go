package main

import "github.com/spf13/cobra"

func nodeCommand() *cobra.Command { return &cobra.Command{Use: "node"} }
