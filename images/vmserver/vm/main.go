package vm

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Main is the program: see images/vmserver. It returns only if it fails.
func Main(args []string) error {
	f := flag.NewFlagSet("vmserver", flag.ExitOnError)
	listen := f.String("listen", "127.0.0.1:8080", "host:port, or the path of a unix socket")
	restarter := f.Bool("restarter", false, "run the server as a child and start it again whenever it dies")
	empty := f.Int("empty", http.StatusFailedDependency, "status of the answer when there is no instance: 424, 404 or 500")
	_ = f.Parse(args) // it exits
	return run(*listen, *empty, *restarter)
}

func run(listen string, empty int, restarter bool) error {
	if restarter {
		return restart()
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
	server := New(empty)
	fmt.Printf("vmserver %s serves on %s, pid %d, without an instance\n", server.Name(), l.Addr(), os.Getpid())
	if err := notify("READY=1\nSTATUS=serving"); err != nil {
		return err
	}
	go beat()
	go prompt(os.Stdin, os.Stdout, server.Name())
	return http.Serve(l, server)
}

// notify is sd_notify(3), if anybody wants to hear it.
func notify(state string) error {
	socket := os.Getenv("NOTIFY_SOCKET")
	if socket == "" {
		return nil
	}
	conn, err := net.Dial("unixgram", socket)
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = conn.Write([]byte(state))
	return err
}

// beat says that the process lives, twice as often as is asked for.
func beat() {
	every, err := strconv.Atoi(os.Getenv("WATCHDOG_USEC"))
	if err != nil {
		return // nobody asks
	}
	for range time.Tick(time.Duration(every) * time.Microsecond / 2) {
		if err := notify("WATCHDOG=1"); err != nil {
			fmt.Println(err)
		}
	}
}

// prompt answers a person at the server's terminal; without one it ends at once.
func prompt(in io.Reader, out io.Writer, name string) {
	for lines := bufio.NewScanner(in); lines.Scan(); {
		fmt.Fprintf(out, "%s heard %q\n", name, lines.Text())
	}
}

// restart runs this program without --restarter, again and again.
func restart() error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	for {
		child := exec.Command(self)
		child.Args = slices.DeleteFunc(slices.Clone(os.Args), func(a string) bool { return a == "--restarter" })
		child.Stdout, child.Stderr = os.Stdout, os.Stderr
		if err := child.Start(); err != nil {
			return err
		}
		err := child.Wait()
		fmt.Printf("vmserver pid %d ended (%v), starting it again\n", child.Process.Pid, err)
	}
}
