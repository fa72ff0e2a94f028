package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"reveille/images"
)

func imageCommand() *cobra.Command {
	cmd := &cobra.Command{Use: "image", Short: "Make what a node boots from"}
	cmd.AddCommand(imageBuildCommand())
	return cmd
}

func imageBuildCommand() *cobra.Command {
	var kernel, initFile, out, set string
	var files []string
	cmd := &cobra.Command{
		Use:   "build",
		Short: "Build an initramfs: /init, kernel modules and their index, more files",
		Long: `Build an initramfs from an init and an unpacked kernel package (dpkg -x: it has
boot/vmlinuz-* and lib/modules/*). The same input gives the same bytes.

Module sets: qemu (virtio and what QEMU emulates), metal (every network card,
disk controller, TPM and BMC driver of the kernel), none. What a module depends
on comes along.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec, err := initramfs(kernel, initFile, set, files)
			if err != nil {
				return err
			}
			report, err := spec.WriteFile(out)
			if err != nil {
				return fmt.Errorf("build %s: %w", out, err)
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s: %.1f MiB (%.1f MiB unpacked), %d files, %d modules for %s\n",
				out, mebi(report.Bytes), mebi(report.Unpacked), report.Files, report.Modules, spec.Kernel.Release)
			if len(report.Missing) > 0 {
				fmt.Fprintf(cmd.OutOrStdout(), "not in this kernel: %s\n", strings.Join(report.Missing, " "))
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&kernel, "kernel-dir", "build/deb", "unpacked kernel package")
	cmd.Flags().StringVar(&initFile, "init", "build/init", "the program that becomes /init")
	cmd.Flags().StringVarP(&out, "out", "o", "build/initramfs.cpio.zst", "file to write")
	cmd.Flags().StringVar(&set, "modules", "qemu", "module set: qemu, metal, none")
	cmd.Flags().StringArrayVar(&files, "file", nil, "add SRC:DST, a file or a whole directory (firmware: /lib/firmware/bnx2:/lib/firmware/bnx2); repeatable")
	return cmd
}

func initramfs(kernel, initFile, set string, files []string) (images.Initramfs, error) {
	mods, err := images.ParseSet(set)
	if err != nil {
		return images.Initramfs{}, err
	}
	spec := images.Initramfs{Init: initFile, Modules: mods}
	if set != "none" {
		if spec.Kernel, err = images.FindKernel(kernel); err != nil {
			return images.Initramfs{}, err
		}
	}
	for _, f := range files {
		src, dst, ok := strings.Cut(f, ":")
		if !ok || src == "" || dst == "" {
			return images.Initramfs{}, fmt.Errorf("file %q: want SRC:DST", f)
		}
		spec.Files = append(spec.Files, images.File{Source: src, Target: dst})
	}
	return spec, nil
}

func mebi(n int64) float64 { return float64(n) / (1 << 20) }
