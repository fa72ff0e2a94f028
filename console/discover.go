package console

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

// readWithin bounds one read from /proc or /sys. They take 1 ms, but
// /proc/consoles takes the kernel's console lock, which a busy printk on a
// slow port can keep for hours.
const readWithin = 200 * time.Millisecond

// discoverWithin bounds all of them together.
const discoverWithin = 2 * time.Second

// Found is what Discover found.
type Found struct {
	Specs  []Spec   // consoles to open, each device once
	Absent []Spec   // asked for, but nothing is behind them yet: see Present
	Notes  []string // what could not be read, what was skipped
}

// Discover finds the consoles of this machine: console= and reveille.console=
// on the kernel command line, /proc/consoles, and the ACPI SPCR table, in that
// order. Root is the root directory (os.DirFS("/")) with /proc and /sys mounted.
//
// /sys/class/tty/console/active is not read: it waits for the console lock.
func Discover(ctx context.Context, root fs.FS) Found {
	ctx, cancel := context.WithTimeout(ctx, discoverWithin)
	defer cancel()
	d := &discovery{ctx: ctx, root: root}
	cmdline, _ := d.read("proc/cmdline")
	words := cmdlineWords(cmdline)
	for _, w := range words {
		if s, ok := strings.CutPrefix(w, "console="); ok {
			d.addParam(s, "cmdline")
		}
	}
	consoles, _ := d.read("proc/consoles")
	for _, name := range parseConsoles(consoles) {
		d.addParam(name, "consoles")
	}
	d.addSPCR()
	for _, w := range words {
		if s, ok := strings.CutPrefix(w, override); ok {
			d.override(s)
		}
	}
	var f Found
	for _, s := range d.specs {
		if why := d.absent(s); why != "" {
			f.Absent = append(f.Absent, s)
			d.note("console %s: %s; used as soon as there is", s.Name, why)
			continue
		}
		f.Specs = append(f.Specs, s)
	}
	f.Notes = d.notes
	return f
}

// Present tells whether there is a device behind a console by now: the driver
// of a hypervisor's console is a module, a UART may be plugged in.
func Present(ctx context.Context, root fs.FS, s Spec) bool {
	d := &discovery{ctx: ctx, root: root}
	return d.absent(s) == ""
}

type discovery struct {
	ctx   context.Context
	root  fs.FS
	specs []Spec
	notes []string
}

// read reads a small file in bounded time; false: there was no answer. A
// missing file is empty: which of them exist differs by machine.
func (d *discovery) read(name string) (string, bool) {
	ctx, cancel := context.WithTimeout(d.ctx, readWithin)
	defer cancel()
	ch := make(chan string, 1)
	go func() {
		b, _ := fs.ReadFile(d.root, name)
		ch <- string(b)
	}()
	select {
	case s := <-ch:
		return s, true
	case <-ctx.Done():
		d.note("read /%s: no answer within %v, ignoring", name, readWithin)
		return "", false
	}
}

func (d *discovery) note(format string, args ...any) {
	d.notes = append(d.notes, fmt.Sprintf(format, args...))
}

func (d *discovery) addParam(s, found string) {
	spec, addr, ok := parseSpec(s)
	if addr != 0 {
		spec.Name, ok = d.portAt(addr)
	}
	if spec.Name == "tty" {
		spec.Name = "tty0"
	}
	if !ok || spec.Name == "" {
		if s != "" && s != "null" {
			d.note("console %q of %s: not a device to write to, skipped", bounded(Clean(s)), found)
		}
		return
	}
	d.add(spec, found)
}

// maxConsoles bounds what a mistaken command line can start.
const maxConsoles = 16

// add merges a console with an earlier mention of it; a later speed wins, as
// in the kernel.
func (d *discovery) add(spec Spec, found string) {
	for i := range d.specs {
		s := &d.specs[i]
		if s.Name != spec.Name {
			continue
		}
		if spec.Baud != 0 && (found != "SPCR" || s.Baud == 0) {
			s.Baud = spec.Baud
		}
		if !slices.Contains(s.Found, found) {
			s.Found = append(s.Found, found)
		}
		return
	}
	if len(d.specs) == maxConsoles {
		d.note("console %s: more than %d consoles, skipped", spec.Name, maxConsoles)
		return
	}
	spec.Found = []string{found}
	d.specs = append(d.specs, spec)
}

func (d *discovery) addSPCR() {
	b, _ := d.read("sys/firmware/acpi/tables/SPCR")
	if b == "" {
		return
	}
	p, err := parseSPCR([]byte(b))
	if err != nil {
		d.note("%v, ignoring", err)
		return
	}
	if name, ok := d.portAt(p.addr); ok {
		d.add(Spec{Name: name, Kind: Serial, Baud: p.baud}, "SPCR")
	}
}

func (d *discovery) override(list string) {
	for s := range strings.SplitSeq(list, ";") {
		name, remove := strings.CutPrefix(s, "-")
		switch {
		case s == "":
		case remove:
			d.specs = slices.DeleteFunc(d.specs, func(sp Spec) bool { return name == "*" || sp.Name == name })
		default:
			d.addParam(s, "reveille.console")
		}
	}
}

// portAt finds the UART at an I/O or memory address: the firmware knows no
// names.
func (d *discovery) portAt(addr uint64) (string, bool) {
	for _, prefix := range []string{"ttyS", "ttyAMA"} {
		for i := range 8 {
			dir := "sys/class/tty/" + prefix + strconv.Itoa(i)
			for _, file := range []string{"port", "iomem_base"} {
				s, _ := d.read(path.Join(dir, file))
				at, err := strconv.ParseUint(strings.TrimSpace(s), 0, 64)
				if err == nil && at == addr {
					return path.Base(dir), true
				}
			}
		}
	}
	d.note("no serial port at address %#x, skipped", addr)
	return "", false
}

// absent says why nothing is behind a device: no such tty, or a port whose
// UART was not found (type 0, PORT_UNKNOWN); empty if something is. Without an
// answer it is taken to be there: opening it will tell.
func (d *discovery) absent(s Spec) (why string) {
	const ttys = "sys/class/tty"
	if any, _ := d.read(path.Join(ttys, "tty/dev")); any == "" {
		return "" // no /sys to ask
	}
	dev, ok := d.read(path.Join(ttys, s.Name, "dev"))
	if ok && dev == "" {
		return "no such device"
	}
	kind, _ := d.read(path.Join(ttys, s.Name, "type"))
	if s.Kind == Serial && strings.TrimSpace(kind) == "0" {
		return "no UART"
	}
	return ""
}
