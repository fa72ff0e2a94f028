// Command vmserver stands in for a server of virtual machines as clusters run
// them: it is given instances, keeps them in memory only, and a new process of
// it knows none of them and says so. It also lies and hangs on demand, for the
// tests of what watches it.
//
//	vmserver --listen 127.0.0.1:8080 [--restarter] [--empty 424|404|500]
//
// With --restarter it is what operators must never put around such a server: a
// parent that starts it again at once when it dies.
package main

import (
	"fmt"
	"os"

	"reveille/images/vmserver/vm"
)

func main() {
	if err := vm.Main(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "vmserver:", err)
		os.Exit(1)
	}
}
