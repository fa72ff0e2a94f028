// Command launch becomes a service: see proc.Launcher. init's own program can do
// that too, and does where an image lacks this one. But it is started for each
// service and each exec probe, and then takes most of its time to set up what
// only the agent needs.
package main

import (
	"os"

	"reveille/boot/proc"
)

func main() { proc.Launch(os.Args[1:]) }
