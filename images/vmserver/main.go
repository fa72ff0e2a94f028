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
	"flag"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"reveille/images/vmserver/vm"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "host:port, or the path of a unix socket")
	restarter := flag.Bool("restarter", false, "run the server as a child and start it again whenever it dies")
	empty := flag.Int("empty", http.StatusFailedDependency, "status of the answer when there is no instance: 424, 404 or 500")
	flag.Parse()
	if err := run(*listen, *empty, *restarter); err != nil {
		fmt.Fprintln(os.Stderr, "vmserver:", err)
		os.Exit(1)
	}
}

func run(listen string, empty int, restarter bool) error {
	if restarter {
		return restart("--listen", listen, "--empty", strconv.Itoa(empty))
	}
	network := "tcp"
	if strings.HasPrefix(listen, "/") {
		network = "unix"
		if err := os.Remove(listen); err != nil && !os.IsNotExist(err) { // of a process before this one
			return err
		}
	}
	l, err := net.Listen(network, listen)
	if err != nil {
		return err
	}
	server := vm.New(empty)
	fmt.Printf("vmserver %s serves on %s, pid %d, without an instance\n", server.Name(), l.Addr(), os.Getpid())
	return http.Serve(l, server)
}

// restart never ends by itself.
func restart(args ...string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for {
		child := exec.Command(self, args...)
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			return err
		}
		err := child.Wait()
		fmt.Printf("vmserver pid %d ended (%v), starting it again\n", child.Process.Pid, err)
	}
}
