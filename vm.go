package main

import "github.com/spf13/cobra"

func vmCommand() *cobra.Command { return &cobra.Command{Use: "vm"} }
