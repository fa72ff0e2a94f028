package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"

	"golang.org/x/sys/unix"

	"reveille/boot/modules"
)

// guest is the life of PID 1 in the machine: run the test, say how it ended on
// the console, switch off.
func guest() {
	code, err := runTest(context.Background())
	if err != nil {
		fmt.Printf("%s2: %v\n", exitLine, err)
	} else {
		fmt.Printf("%s%d\n", exitLine, code)
	}
	unix.Sync()
	if err := unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF); err != nil {
		fmt.Println("guestexec: switch off:", err)
	}
}

func runTest(ctx context.Context) (int, error) {
	if err := prepare(ctx); err != nil {
		return 0, err
	}
	b, err := os.ReadFile(jobFile)
	if err != nil {
		return 0, err
	}
	var todo job
	if err := json.Unmarshal(b, &todo); err != nil {
		return 0, fmt.Errorf("parse %s: %w", jobFile, err)
	}
	out, err := openRaw("/dev/ttyS1")
	if err != nil {
		return 0, err
	}
	test := exec.CommandContext(ctx, testFile, todo.Args...)
	test.Dir, test.Env, test.Stdout, test.Stderr = testDir, todo.Env, out, out
	err = test.Run()
	// The port must be empty before the power goes; its reader is unlimited.
	if drainErr := unix.IoctlSetInt(int(out.Fd()), unix.TCSBRK, 1); drainErr != nil {
		return 0, fmt.Errorf("drain ttyS1: %w", drainErr)
	}
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.Exited() {
		return exit.ExitCode(), nil
	}
	return 0, err
}

// prepare makes the guest a place where a network test feels at home.
func prepare(ctx context.Context) error {
	for _, m := range []struct{ kind, target string }{
		{"proc", "/proc"}, {"sysfs", "/sys"}, {"devtmpfs", "/dev"}, {"tmpfs", "/tmp"}, {"tmpfs", "/run"},
	} {
		if err := unix.Mount(m.kind, m.target, m.kind, 0, ""); err != nil {
			return fmt.Errorf("mount %s: %w", m.target, err)
		}
	}
	// QEMU's firmware has no UUID for the machine.
	if err := os.MkdirAll("/etc", 0o755); err != nil {
		return err
	}
	if err := os.WriteFile("/etc/machine-id", []byte("00000000000000000000000000000001\n"), 0o444); err != nil {
		return err
	}
	loader, err := modules.Open("/", slog.New(slog.NewTextHandler(os.Stderr, nil)))
	if err != nil {
		return err
	}
	if err := loader.Coldplug(ctx); err != nil {
		return err
	}
	for _, m := range []string{"bonding", "8021q", "bridge", "dummy", "veth"} {
		if err := loader.Load(m); err != nil {
			return err
		}
	}
	return loopback()
}

// loopback sets lo up, which an init otherwise does.
func loopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	defer unix.Close(s)
	req, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	req.SetUint16(unix.IFF_UP)
	if err := unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, req); err != nil {
		return fmt.Errorf("set lo up: %w", err)
	}
	return nil
}

// openRaw opens a serial port that passes bytes as they are, without making
// carriage returns of a test's newlines.
func openRaw(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return nil, err
	}
	t, err := unix.IoctlGetTermios(int(f.Fd()), unix.TCGETS)
	if err != nil {
		return nil, fmt.Errorf("set %s raw: %w", name, err)
	}
	t.Oflag &^= unix.OPOST
	if err := unix.IoctlSetTermios(int(f.Fd()), unix.TCSETS, t); err != nil {
		return nil, fmt.Errorf("set %s raw: %w", name, err)
	}
	return f, nil
}
