package main

import "github.com/spf13/cobra"

func imageCommand() *cobra.Command { return &cobra.Command{Use: "image"} }
