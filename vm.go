package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"reveille/images/bench"
)

func vmCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "vm", Short: "Run nodes in QEMU"}
	cmd.AddCommand(vmRunCommand())
	return cmd
}

// escape ends a session, as in telnet: ctrl-].
const escape = 0x1d

func vmRunCommand() *cobra.Command {
	cfg := bench.Config{NICs: 2, Disk: true, TPM: true}
	var serial, forward []string
	var nodeYAML string
	cmd := &cobra.Command{
		Use:   "run",
		Short: "Run a node with its console on this terminal; ctrl-] cuts its power",
		Long: `Run a node in QEMU, with the first serial port on this terminal. All NICs are
on one network, where this machine's loopback is 10.0.2.2 and fd00:5::2; the
node may use 10.0.2.15 and fd00:5::/64. Ctrl-] cuts the power.

A serial port is read without limit, at N bytes a second (--serial 200), or not
any more after N bytes (--serial stop:2048). What ports other than the first
show goes to serial<N>.log, in --dir or here. With --dir the disk and the TPM
stay for the next run.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			for _, s := range serial {
				pace, err := parsePace(s)
				if err != nil {
					return err
				}
				cfg.Serial = append(cfg.Serial, pace)
			}
			for _, f := range forward {
				host, guest, ok := strings.Cut(f, "=")
				if !ok {
					return fmt.Errorf("forward %q: want HOST:PORT=GUEST:PORT", f)
				}
				cfg.Forward = append(cfg.Forward, bench.Forward{Host: host, Guest: guest})
			}
			if nodeYAML != "" {
				b, err := os.ReadFile(nodeYAML)
				if err != nil {
					return fmt.Errorf("read node parameters: %w", err)
				}
				cfg.NodeYAML = b
			}
			return runVM(cmd.Context(), cfg)
		},
	}
	f := cmd.Flags()
	f.StringVar(&cfg.Kernel, "kernel", "build/vmlinuz", "kernel to boot")
	f.StringVar(&cfg.Initramfs, "initrd", "build/initramfs.cpio.zst", "initramfs to boot")
	f.StringVar(&cfg.Append, "append", "", "more words for the kernel command line")
	f.StringVar(&cfg.Name, "name", "vm", "name, from which the MAC addresses are made")
	f.StringVar(&cfg.Dir, "dir", "", "where disk and TPM stay (default: a temporary directory)")
	f.StringVar(&nodeYAML, "node-yaml", "", "node parameters, given as fw_cfg opt/reveille/node.yaml")
	f.IntVar(&cfg.NICs, "nics", cfg.NICs, "number of NICs")
	f.BoolVar(&cfg.TPM, "tpm", cfg.TPM, "give it a TPM")
	f.BoolVar(&cfg.Disk, "disk", cfg.Disk, "give it a disk for the state partition")
	f.BoolVar(&cfg.Watchdog, "watchdog", false, "give it an i6300esb watchdog")
	f.IntVar(&cfg.MemoryMiB, "memory", 512, "memory in MiB")
	f.IntVar(&cfg.CPUs, "cpus", 2, "number of CPUs")
	f.StringArrayVar(&serial, "serial", nil, "a serial port and its reader: unlimited, BYTES-PER-SECOND, stop:BYTES; repeatable (default one, unlimited)")
	f.StringArrayVar(&forward, "forward", nil, "forward HOST:PORT=GUEST:PORT into the node; repeatable")
	f.StringArrayVar(&cfg.Args, "qemu-arg", nil, "one more argument for QEMU; repeatable")
	return cmd
}

func parsePace(s string) (bench.Pace, error) {
	if s == "unlimited" {
		return bench.Unlimited(), nil
	}
	number, stops := strings.CutPrefix(s, "stop:")
	n, err := strconv.Atoi(number)
	if err != nil || n <= 0 {
		return bench.Pace{}, fmt.Errorf("serial reader %q: want unlimited, BYTES-PER-SECOND or stop:BYTES", s)
	}
	if stops {
		return bench.StopsAfter(n), nil
	}
	return bench.Limited(n), nil
}

// runVM runs the node until it goes off, the user types the escape, or ctx ends.
func runVM(ctx context.Context, cfg bench.Config) (err error) {
	node, err := bench.New(cfg)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, node.Close()) }()
	node.Port(0).Tee(os.Stdout)
	for i := 1; i < len(cfg.Serial); i++ {
		log, err := os.Create(filepath.Join(cfg.Dir, fmt.Sprintf("serial%d.log", i)))
		if err != nil {
			return fmt.Errorf("keep serial port %d: %w", i, err)
		}
		defer log.Close()
		node.Port(i).Tee(log)
	}
	if err := node.PowerOn(ctx); err != nil {
		return err
	}
	ctx, escaped := context.WithCancel(ctx)
	defer escaped()
	if stdin := int(os.Stdin.Fd()); term.IsTerminal(stdin) {
		cooked, err := term.MakeRaw(stdin)
		if err != nil {
			return fmt.Errorf("set terminal: %w", err)
		}
		defer func() { _ = term.Restore(stdin, cooked) }()
		// Ends with the program: a read of a terminal cannot be taken back.
		go typeOn(node.Port(0), os.Stdin, escaped)
	}
	select {
	case <-node.Off():
	case <-ctx.Done():
	}
	return nil
}

// typeOn passes keys on until the escape.
func typeOn(port io.Writer, keys io.Reader, escaped func()) {
	buf := make([]byte, 256)
	for {
		n, err := keys.Read(buf)
		if err != nil {
			return
		}
		for _, key := range buf[:n] {
			if key == escape {
				escaped()
				return
			}
		}
		if _, err := port.Write(buf[:n]); err != nil {
			return
		}
	}
}
