// Command init is what the kernel starts as /init. As PID 1 it is the warden,
// which starts it again as init, which starts it again as the agent.
package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"reveille/boot"
	"reveille/boot/pid1"
	"reveille/boot/proc"
	"reveille/console"
)

// Set by the linker: see Makefile.
var (
	buildID   = "dev"
	buildTime = "0" // seconds since 1970, UTC
)

// argv[0] of init and of the agent; init finds the path of its program after it.
const (
	initMark  = "reveille-init"
	agentMark = "reveille-agent"
	// What becomes a service: see proc.Launcher.
	launchMark = "reveille-launch"
)

func main() {
	switch {
	case os.Args[0] == agentMark:
		if err := agent(); err != nil {
			fmt.Fprintln(os.Stderr, "agent:", err)
			os.Exit(1)
		}
	case os.Args[0] == launchMark:
		proc.Launch(os.Args[1:])
	case len(os.Args) == 3 && os.Args[1] == pid1.CoreMark && os.Getpid() != 1:
		pid1.KeepCore(os.Args[2], os.Stdin)
	case os.Args[0] == initMark && len(os.Args) > 1:
		debug.SetMaxStack(maxStack)
		pid1.Run(options(os.Args[1]))
	case os.Getpid() == 1:
		pid1.Guard(options(os.Args[0]))
	default:
		if !extra(os.Args) {
			fmt.Fprintln(os.Stderr, "init: this is the init of a node; boot it with rdinit=/init")
			os.Exit(2)
		}
	}
}

func options(program string) pid1.Options {
	return pid1.Options{
		BuildID: buildID, Program: program,
		InitArgs: []string{initMark, program}, AgentArgs: []string{agentMark},
		Launcher: launcher(program),
	}
}

// launchProgram is init/launch, where `make image` puts it.
const launchProgram = "/launch"

func launcher(own string) proc.Launcher {
	l := proc.Launcher{Path: own, Mark: launchMark, Own: own}
	if _, err := os.Stat(launchProgram); err == nil {
		l.Path = launchProgram
	}
	return l
}

// maxStack turns a runaway recursion into a stack overflow, with a trace,
// before it takes the 1 GB that is Go's default and the machine's memory; and
// before a slow machine, which walks the whole stack each time that it doubles,
// takes longer for it than a silent agent may. No honest stack here is a
// hundredth of it.
const maxStack = 16 << 20

// agent runs on the sockets that init gave it: file descriptors 3 and 4.
func agent() error {
	debug.SetMaxStack(maxStack)
	boot.FaultAtStart()
	logs, err := socket(3, "log socket")
	if err != nil {
		return err
	}
	control, err := socket(4, "control socket")
	if err != nil {
		return err
	}
	incarnation, err := strconv.ParseUint(os.Getenv("REVEILLE_INCARNATION"), 10, 64)
	if err != nil {
		return fmt.Errorf("read incarnation: %w", err)
	}
	seconds, err := strconv.ParseInt(buildTime, 10, 64)
	if err != nil {
		return fmt.Errorf("read build time: %w", err)
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	handler := console.NewHandler(logs, "agent", slog.LevelDebug)
	err = boot.Run(ctx, boot.Options{
		Control:     control,
		Logger:      func(origin string) *slog.Logger { return slog.New(console.WithOrigin(handler, origin)) },
		Incarnation: incarnation,
		Build:       boot.Build{ID: buildID, Time: time.Unix(seconds, 0)},
	})
	if ctx.Err() != nil {
		return nil // init asked for the end
	}
	return err
}

func socket(fd uintptr, name string) (net.Conn, error) {
	f := os.NewFile(fd, name)
	defer f.Close() // FileConn works on a duplicate
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", name, err)
	}
	return conn, nil
}
