package state

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"
)

const (
	// scanStep: how often a late disk is looked for; a scan reads a sector or
	// two of each disk.
	scanStep = 250 * time.Millisecond
	// probeTimeout: a disk that spins up takes some 10 s for its first sector.
	// A sick one can take minutes, and must not hold the others.
	probeTimeout = 15 * time.Second
	// twinTimeout: how long after the first state partition the other disks are
	// waited for, since a second one would be refused.
	twinTimeout = 2 * time.Second
	// manyDisks is more than a machine has: a probe that ends after its round
	// leaves its result for the next.
	manyDisks = 1024
)

// scan looks through the block devices. A disk is probed in a goroutine of its
// own, for a sick one may not return, and never twice at a time, for each
// goroutine that hangs in the kernel is a thread.
type scan struct {
	sys, dev string
	pending  map[string]bool // probes under way, also of earlier rounds
	results  chan probe
}

type probe struct {
	device string
	label  string
	err    error
}

func newScan(sys, dev string) *scan {
	return &scan{sys: sys, dev: dev, pending: map[string]bool{}, results: make(chan probe, manyDisks)}
}

// wait scans until there is one state partition, or ctx ends.
func (s *scan) wait(ctx context.Context) (string, error) {
	for {
		found, seen, err := s.once(ctx)
		switch {
		case err != nil:
			err = fmt.Errorf("find state partition: %w", err)
		case len(found) == 1:
			return found[0], nil
		case len(found) > 1:
			return "", fmt.Errorf("find state partition: %d file systems are labelled %s (%s): remove all but one", len(found), Label, some(found))
		case len(seen) == 0:
			err = errors.New("find state partition: no block device; attach a disk, or give the image its driver")
		default:
			err = fmt.Errorf("find state partition: no FAT file system labelled %s on %d block devices (%s); make one: mkfs.vfat -n %[1]s", Label, len(seen), some(seen))
		}
		if sleep(ctx, scanStep) != nil {
			return "", err // what was seen explains more than that time is over
		}
	}
}

// some shows a few of a list that may be long.
func some(list []string) string {
	const few = 6
	if len(list) > few {
		return strings.Join(list[:few], ", ") + fmt.Sprintf(" and %d more", len(list)-few)
	}
	return strings.Join(list, ", ")
}

// once probes every device; seen says in words what each of the others is.
func (s *scan) once(ctx context.Context) (found, seen []string, err error) {
	devices, err := s.devices()
	if err != nil {
		return nil, nil, err
	}
	awaited := map[string]bool{}
	for _, d := range devices {
		if !s.pending[d] {
			s.pending[d], awaited[d] = true, true
			go s.probe(d)
		} else {
			seen = append(seen, d+" does not answer")
		}
	}
	timeout := time.NewTimer(probeTimeout)
	defer timeout.Stop()
	for len(awaited) > 0 {
		select {
		case p := <-s.results:
			delete(s.pending, p.device)
			delete(awaited, p.device)
			if p.err == nil && p.label == Label {
				found = append(found, p.device)
				timeout.Reset(twinTimeout)
			} else {
				seen = append(seen, p.String())
			}
			continue
		case <-timeout.C:
		case <-ctx.Done():
		}
		for d := range awaited {
			seen = append(seen, d+" does not answer")
		}
		break
	}
	slices.Sort(found)
	slices.Sort(seen)
	return found, seen, nil
}

func (s *scan) probe(device string) {
	label, err := probeLabel(s.node(device))
	s.results <- probe{device, label, err}
}

// node is the path of a device; sysfs writes cciss!c0d0 for cciss/c0d0.
func (s *scan) node(device string) string {
	return filepath.Join(s.dev, strings.ReplaceAll(device, "!", "/"))
}

func (p probe) String() string {
	switch {
	case errors.Is(p.err, errNotFAT):
		return p.device + " is not FAT"
	case p.err != nil:
		return fmt.Sprintf("%s: %v", p.device, p.err)
	}
	return fmt.Sprintf("%s is labelled %q", p.device, p.label)
}

func probeLabel(path string) (string, error) {
	f, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer f.Close()
	return fatLabel(f)
}

// devices lists block devices that hold something, in the order of their names.
func (s *scan) devices() ([]string, error) {
	entries, err := os.ReadDir(s.sys)
	if err != nil {
		return nil, fmt.Errorf("list block devices: %w", err)
	}
	var out []string
	for _, e := range entries {
		// A floppy drive takes seconds to say that it is empty; RAM disks are new.
		if name := e.Name(); !strings.HasPrefix(name, "fd") && !strings.HasPrefix(name, "ram") && s.sectors(name) > 0 {
			out = append(out, name)
		}
	}
	return out, nil
}

func (s *scan) sectors(name string) int64 {
	b, err := os.ReadFile(filepath.Join(s.sys, name, "size"))
	if err != nil {
		return 0
	}
	n, _ := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return n
}

func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-timer.C:
		return nil
	}
}
