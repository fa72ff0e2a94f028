package pid1

import (
	"context"
	"os"
	"slices"
	"time"

	"reveille/console"
)

// findConsoles bounds the search: it reads a few files of /proc and /sys, and
// a driver that hangs there must not hold the boot.
const findConsoles = 3 * time.Second

// openConsoles takes the consoles over from the kernel: from here on each has
// one writer, ours, which also shows what the kernel says.
func (i *Init) openConsoles(ctx context.Context) {
	if err := console.TamePrintk(); err != nil {
		i.warn("%v, going on: the kernel may write over our lines", err)
	}
	i.screens.ShowFrom(console.Threshold(i.cmdline()))
	shows, notes := console.ParseShow(i.cmdline())
	i.screens.Show(shows)
	within, cancel := context.WithTimeout(ctx, findConsoles)
	defer cancel()
	found := console.Discover(within, os.DirFS("/"))
	for _, note := range append(notes, found.Notes...) {
		i.info("consoles: %s", note)
	}
	screen := i.startScreen()
	for _, spec := range found.Specs {
		if screen && console.OwnedByStatus(spec) {
			i.info("consoles: %s shows the status screen instead of lines; reveille.screen=off changes that", spec.Name)
			continue
		}
		i.addConsole(spec)
	}
	go i.awaitConsoles(ctx, found.Absent)
}

func (i *Init) addConsole(spec console.Spec) {
	i.screens.Add(spec, func() (console.Port, error) { return console.Open("/dev", spec) })
}

// lookAgain is how often a console is looked for that was asked for and is not
// there: it costs two reads from memory.
const lookAgain = 2 * time.Second

// awaitConsoles takes late consoles into use as they come.
func (i *Init) awaitConsoles(ctx context.Context, absent []console.Spec) {
	for len(absent) > 0 && pause(ctx, lookAgain) {
		absent = slices.DeleteFunc(absent, func(spec console.Spec) bool {
			if !console.Present(ctx, os.DirFS("/"), spec) {
				return false
			}
			i.info("consoles: %s is there now", spec.Name)
			i.addConsole(spec)
			return true
		})
	}
}

// readKernel takes the kernel's log in for as long as the machine runs. What
// the kernel printed by itself before us is in the log, not on the consoles
// again.
func (i *Init) readKernel(ctx context.Context) {
	began := console.BootTime()
	shows, _ := console.ParseShow(i.cmdline())
	least, asked := shows.Of(console.KernelOrigin)
	if !asked {
		least = console.KernelThreshold(i.cmdline())
	}
	for {
		err := i.readKernelOnce(ctx, least, began)
		if ctx.Err() != nil {
			return
		}
		i.warn("%v; next try in %s", err, lastRestart)
		if !pause(ctx, lastRestart) {
			return
		}
	}
}

// cmdline is the kernel's command line, empty if it cannot be had.
func (i *Init) cmdline() string {
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		i.warn("read kernel command line: %v, going on without it", err)
	}
	return string(line)
}

func (i *Init) readKernelOnce(ctx context.Context, least console.Level, since time.Duration) error {
	f, err := console.OpenKmsg()
	if err != nil {
		return err
	}
	defer f.Close()
	return console.ReadKernel(ctx, i.log, f, least, since)
}
