// Command guestexec runs a test binary in a virtual machine, as root of a kernel
// of its own, with bonding, VLANs and two NICs:
//
//	CGO_ENABLED=0 go test -tags guest -exec "$PWD/build/guestexec" ./netcfg
//
// It packs the binary and the package's testdata into an initramfs, boots it,
// copies the output and exits with the test's status. In the guest the same
// program is /init. Files that a test writes (profiles, -o) stay in the guest.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"reveille/images"
	"reveille/images/bench"
)

// job is what the guest is to do.
type job struct {
	Args []string `json:"args"`
	Env  []string `json:"env"`
}

const (
	jobFile  = "/guestexec.json"
	testDir  = "/test"
	testFile = testDir + "/test"
	treeDir  = "/peers"
	exitLine = "guestexec: exit "

	// guestMemory, MiB, is for a benchmark that keeps several networks of a
	// thousand devices.
	guestMemory = 2048
)

func main() {
	if os.Getpid() == 1 {
		guest()
		return
	}
	tree := flag.String("tree", "", "folder that the guest has as "+treeDir)
	flag.Parse()
	if flag.NArg() < 1 {
		fmt.Fprintln(os.Stderr, "usage: guestexec [-tree DIR] TEST-BINARY [ARG...], as go test -exec runs it")
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGQUIT)
	defer stop()
	code, err := host(ctx, *tree, flag.Arg(0), flag.Args()[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "guestexec:", err)
		code = 2
	}
	os.Exit(code)
}

// host boots the test and returns its exit status.
func host(ctx context.Context, tree, test string, args []string) (code int, err error) {
	dir, err := os.MkdirTemp("", "guestexec-")
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	cfg, err := pack(dir, tree, test, args)
	if err != nil {
		return 0, err
	}
	node, err := bench.New(cfg)
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	node.Port(1).Tee(os.Stdout)
	if err := node.PowerOn(ctx); err != nil {
		return 0, err
	}
	exit, err := node.WaitSerial(ctx, regexp.MustCompile(exitLine+`(\d+)(?:: (.*?))?\r?\n`))
	if err != nil {
		return 0, err
	}
	if exit[2] != "" {
		return 0, fmt.Errorf("in the guest: %s", exit[2])
	}
	return strconv.Atoi(exit[1])
}

// pack makes the machine that runs the test: the kernel's messages and the
// result come on its first serial port, the test's output on the second.
func pack(dir, tree, test string, args []string) (bench.Config, error) {
	root, err := moduleRoot()
	if err != nil {
		return bench.Config{}, err
	}
	kernel, err := images.FindKernel(filepath.Join(root, "build/deb"))
	if err != nil {
		return bench.Config{}, fmt.Errorf("%w (make deps unpacks one)", err)
	}
	set, err := images.ParseSet("qemu")
	if err != nil {
		return bench.Config{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return bench.Config{}, err
	}
	todo, err := json.Marshal(job{Args: args, Env: environment(os.Environ())})
	if err != nil {
		return bench.Config{}, err
	}
	if err := os.WriteFile(filepath.Join(dir, "job"), todo, 0o600); err != nil {
		return bench.Config{}, err
	}
	spec := images.Initramfs{Init: self, Kernel: kernel, Modules: set, Plain: true, Files: []images.File{
		{Source: test, Target: testFile}, {Source: filepath.Join(dir, "job"), Target: jobFile},
	}}
	if _, err := os.Stat("testdata"); err == nil {
		spec.Files = append(spec.Files, images.File{Source: "testdata", Target: testDir + "/testdata"})
	}
	if tree != "" {
		spec.Files = append(spec.Files, images.File{Source: tree, Target: treeDir})
	}
	initramfs := filepath.Join(dir, "initramfs")
	_, err = spec.WriteFile(initramfs)
	return bench.Config{
		Name: filepath.Base(test), Kernel: kernel.Image, Initramfs: initramfs, MemoryMiB: guestMemory,
		Serial: []bench.Pace{bench.Unlimited(), bench.Unlimited()}, NICs: 2,
		Append: "loglevel=4",
	}, err
}

// environment is what of ours means something in the guest.
func environment(env []string) []string {
	keep := []string{"PATH=/", "HOME=/", "TMPDIR=/tmp"}
	for _, kv := range env {
		if name, _, _ := strings.Cut(kv, "="); strings.HasPrefix(name, "REVEILLE_") || strings.HasPrefix(name, "GO") && name != "GOCOVERDIR" {
			keep = append(keep, kv)
		}
	}
	return keep
}

// moduleRoot is the checkout, found from the package's directory, in which go
// test starts us.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	for ; err == nil; dir = filepath.Dir(dir) {
		if _, statErr := os.Stat(filepath.Join(dir, "go.mod")); statErr == nil {
			return dir, nil
		}
		if dir == "/" {
			err = fmt.Errorf("find go.mod: %w", fs.ErrNotExist)
		}
	}
	return "", err
}
