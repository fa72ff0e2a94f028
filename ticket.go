package main

import "github.com/spf13/cobra"

func ticketCommand() *cobra.Command { return &cobra.Command{Use: "ticket"} }
