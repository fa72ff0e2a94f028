package tpm

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

const (
	// waitAnnounced: a TPM on SPI behind modules was seen to take 10 s to probe.
	waitAnnounced = 30 * time.Second
	// waitUnannounced: without a word from firmware only a device tree can
	// still bring one, and most such machines simply have none.
	waitUnannounced = 2 * time.Second
	// waitStep is short beside a probe, and costs two stat calls.
	waitStep = 50 * time.Millisecond
)

// Open finds the machine's TPM 2.0 and takes it. It waits, within bounds, for a
// device that is still being probed or in use. Without one the error's Outcome
// is Missing (nothing announces one either), Version12 or Unresponsive.
//
// /dev/tpm0 goes first: the resource manager behind tpmrm0 swaps every object
// out and in between commands, which made an unseal five times slower, and at
// boot nobody else uses the TPM.
func Open(ctx context.Context, opts Options) (*TPM, error) {
	s := system{sys: "/sys", dev: "/dev"}
	return s.open(ctx, opts)
}

// system is where the kernel shows its devices; tests show their own.
type system struct{ sys, dev string }

func (s system) open(ctx context.Context, opts Options) (*TPM, error) {
	announced := s.announced()
	wait := opts.Wait
	if wait == 0 {
		wait = waitUnannounced
		if announced {
			wait = waitAnnounced
		}
	}
	f, err := s.device(ctx, opts.Device, wait)
	if err != nil {
		return nil, err
	}
	if f == nil && announced {
		return nil, &Error{Outcome: Unresponsive, Detail: fmt.Sprintf("firmware announces a TPM, the kernel shows none after %v", wait)}
	}
	if f == nil {
		return nil, &Error{Outcome: Missing}
	}
	t, err := New(ctx, NewTransport(f), opts)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", f.Name(), err)
	}
	t.name += " on " + f.Name()
	t.redial = func(ctx context.Context) (Transport, error) { return s.again(ctx, opts) }
	return t, nil
}

// again opens the device after a failure. A TPM that is still busy with the
// command it did not answer keeps /dev/tpm0 taken: the next retry may find it.
func (s system) again(ctx context.Context, opts Options) (Transport, error) {
	f, err := s.device(ctx, opts.Device, waitUnannounced)
	if err != nil {
		return nil, err
	}
	if f == nil {
		return nil, &Error{Outcome: Unresponsive, Detail: "its device is gone"}
	}
	return NewTransport(f), nil
}

// announced tells whether firmware lists a TPM in its ACPI tables.
func (s system) announced() bool {
	for _, table := range []string{"TPM2", "TCPA"} {
		if _, err := os.Stat(filepath.Join(s.sys, "firmware/acpi/tables", table)); err == nil {
			return true
		}
	}
	return false
}

// device opens the first device there is; nil when none appears in time.
func (s system) device(ctx context.Context, only string, wait time.Duration) (*os.File, error) {
	paths := []string{filepath.Join(s.dev, "tpm0"), filepath.Join(s.dev, "tpmrm0")}
	if only != "" {
		paths = []string{only}
	}
	for deadline := time.Now().Add(wait); ; {
		if major, err := os.ReadFile(filepath.Join(s.sys, "class/tpm/tpm0/tpm_version_major")); err == nil && strings.TrimSpace(string(major)) == "1" {
			return nil, &Error{Outcome: Version12}
		}
		f, err := firstDevice(paths)
		if f != nil {
			return f, nil
		}
		if time.Now().After(deadline) {
			return nil, err
		}
		if err := sleep(ctx, waitStep); err != nil {
			return nil, &Error{Outcome: Unresponsive, Detail: "wait for TPM device", Err: err}
		}
	}
}

// firstDevice opens the first path that exists and is free. The error is nil
// when none exists.
func firstDevice(paths []string) (*os.File, error) {
	var failed error
	for _, p := range paths {
		f, err := os.OpenFile(p, os.O_RDWR|syscall.O_NONBLOCK, 0)
		if err == nil {
			return f, nil
		}
		// ENODEV, ENXIO: the node is there, its driver is not (yet, or any more).
		if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ENODEV) && !errors.Is(err, syscall.ENXIO) {
			failed = errors.Join(failed, err)
		}
	}
	if failed != nil {
		return nil, &Error{Outcome: Unresponsive, Err: failed}
	}
	return nil, nil
}
