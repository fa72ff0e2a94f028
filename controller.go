package main

import "github.com/spf13/cobra"

func controllerCommand() *cobra.Command { return &cobra.Command{Use: "controller"} }
