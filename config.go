package main

import "github.com/spf13/cobra"

func configCommand() *cobra.Command { return &cobra.Command{Use: "config"} }
