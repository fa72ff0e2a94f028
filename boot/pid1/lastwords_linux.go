package pid1

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"reveille/boot/crash"
	"reveille/boot/proc"
	"reveille/console"
)

const (
	// speakFor bounds what init's death may take of consoles: the summary
	// (2 KiB) within it at 200 B/s.
	speakFor = 12 * time.Second
	// mute is how long a console may take nothing before it is given up.
	mute = 3 * time.Second
	// maxSpoken bounds the text for a console, maxKmsg the lines for the
	// kernel's log, which may survive the reboot in pstore.
	maxSpoken = 32 << 10
	maxKmsg   = 200
	// orphansGrace is what services get to end by themselves: they have lost
	// their output, and with it most of their reasons to go on.
	orphansGrace = 2 * time.Second
)

// bury tells of init's death on every console, in the kernel's log and on the
// disk, and restarts the machine; not at once if it did so before. Nothing
// here waits without a bound, and nothing uses what init died of: the log and
// the engine of the consoles are init's.
func (w *warden) bury(ws syscall.WaitStatus) {
	go reapAll()
	dog, _ := openWatchdog() // none, or its driver is not loaded: nothing to feed
	go dog.feedFor(speakFor)
	// It may have died before it did these; what is done stays so. A kernel that
	// prints by itself would hold a dead port, and all others with it, for as
	// long as tellKernel has lines.
	mountAPI(apiMounts)
	_ = console.TamePrintk() // nobody is left to be told
	report := w.report(ws)
	var all sync.WaitGroup
	all.Go(func() { tellKernel(report) })
	all.Go(func() { speak(spoken(report), speakFor) })
	all.Go(func() { within(mute, func() { w.showDeath(report, "init is dead") }) })
	stored := make(chan error, 1)
	go func() {
		_, err := bounded(diskPatience, func() (struct{}, error) { return struct{}{}, keepReport(report, readLastLog(w.log)) })
		stored <- err
	}()
	all.Wait()
	line := "init is dead; rebooting"
	if err := <-stored; err != nil {
		line += "; the crash is not on disk: " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
	tell := func(level console.Level, line string) {
		within(mute, func() { w.showDeath(report, line) })
		speak([]byte(stamp("warden", level)+line+"\r\n"), mute)
	}
	w.waitForTurn(dog, tell)
	go dog.feedFor(2*mute + orphansGrace + killGrace + syncGrace)
	tell(console.Crash, line)
	within(orphansGrace+killGrace, endOrphans)
	within(syncGrace, func() { unmountDisks(); unix.Sync() })
	for {
		restartMachine(proc.Reboot)
		<-time.After(time.Second) // it returned: try again, there is nothing else
	}
}

// report makes a crash of what init left behind.
func (w *warden) report(ws syscall.WaitStatus) console.CrashReport {
	words := console.NewCrashCollector(console.DefaultCrashHead, console.DefaultCrashTail, nil)
	_, _ = io.Copy(words, io.NewSectionReader(w.words, 0, 1<<62)) // memory: there is no error
	note := make([]byte, 128)
	n, _ := w.note.ReadAt(note, 0) // likewise; it is short
	now := console.BootTime()
	return console.Summarise(console.CrashFacts{
		Process:     "init",
		Build:       w.options.BuildID,
		Incarnation: 1,
		Uptime:      now,
		Ran:         now - w.began,
		Stage:       strings.TrimRight(string(note[:n]), " \x00"),
		WaitStatus:  proc.ExitOf(ws, now).String(),
	}, words.Text())
}

// keepReport writes the crash record to the state partition.
func keepReport(c console.CrashReport, log []byte) error {
	if !stateMounted() {
		return errNoPartition
	}
	return keepIn(crash.Dir, recordOf(crash.Init, c, log).Encode())
}

// keepIn writes a record where the disk lets it: one slot that cannot be read,
// or a disk too full for all of them, matters only if no other takes it.
func keepIn(dir string, raw []byte) error {
	store, old, opened := crash.OpenStore(dir)
	prepared := store.Prepare()
	oldest := ""
	for _, st := range old {
		if store.Holds(st.ID) {
			oldest = st.ID
			break
		}
	}
	if err := store.Put(raw, oldest); err != nil {
		return errors.Join(err, opened, prepared)
	}
	return nil
}

// tellKernel writes the crash to /dev/kmsg, a line a record.
func tellKernel(c console.CrashReport) {
	fd, err := unix.Open("/dev/kmsg", unix.O_WRONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		return // the consoles have it
	}
	defer unix.Close(fd)
	lines := slices.Concat(c.Summary, strings.Split(c.Trace, "\n"))
	for _, line := range lines[:min(len(lines), maxKmsg)] {
		line = line[:min(len(line), 900)] // a record takes 992 bytes
		_, _ = unix.Write(fd, []byte("<2>reveille: "+line+"\n"))
	}
}

// stamp begins a line as init's consoles do.
func stamp(origin string, level console.Level) string {
	return fmt.Sprintf("[%9.3f] %-13s %c ", console.BootTime().Seconds(), origin, level.Letter())
}

// spoken is the crash as it goes to consoles: summary first, then the trace.
func spoken(c console.CrashReport) []byte {
	head := stamp(console.CrashOrigin, console.Crash)
	text := "\n" + head + strings.Join(c.Summary, "\n") + "\n"
	if trace := strings.TrimRight(c.Trace, "\n"); trace != "" {
		trace = console.Clean(trace)
		text += head + "trace of init:\n" + trace[:min(len(trace), maxSpoken)] + "\n-- end of trace --\n"
	}
	return bytes.ReplaceAll([]byte(text), []byte("\n"), []byte("\r\n"))
}

// speak writes text on every console, side by side, and returns when all have
// sent it, or took nothing for a while, or d is over.
func speak(text []byte, d time.Duration) {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	found := console.Discover(ctx, os.DirFS("/")) // what it could not read it does without
	if vt, _ := findScreen(); vt != nil {
		found.Specs = slices.DeleteFunc(found.Specs, console.OwnedByStatus) // see showDeath
	}
	var all sync.WaitGroup
	for _, spec := range found.Specs {
		all.Go(func() { speakOn(ctx, func() (console.Port, error) { return console.Open("/dev", spec) }, text) })
	}
	within(d, all.Wait)
}

// speakOn tries a console twice. On a machine that stood still, a port that init
// had just let go of was seen to send nothing of all that was written to it for
// 3 s; opened again, it did.
func speakOn(ctx context.Context, open console.Opener, text []byte) {
	for range 2 {
		if port, err := open(); err == nil {
			sent := pour(ctx, port, text)
			port.Close()
			if sent {
				return
			}
		}
		if !pause(ctx, pourPause) {
			return
		}
	}
}

// pourPause is how long a port is left alone between two looks: it sends 115 bytes meanwhile at
// 115200 baud.
const pourPause = 10 * time.Millisecond

// pour writes text to a port, waits until it is sent, and tells whether any of
// it was.
func pour(ctx context.Context, port console.Port, text []byte) (sent bool) {
	moved, queued, taken := time.Now(), 0, 0
	for time.Since(moved) < mute {
		n, err := port.Write(text)
		if err != nil && !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			return sent
		}
		n = max(n, 0)
		text, taken = text[n:], taken+n
		left, err := port.Queued()
		if err != nil {
			return sent
		}
		sent = sent || taken > left
		if len(text) == 0 && left == 0 {
			return sent
		}
		if n > 0 || left < queued {
			moved = time.Now()
		}
		queued = left
		if !pause(ctx, pourPause) {
			return sent
		}
	}
	return sent
}

// waitForTurn keeps forced reboots apart: see earliest. A signal to PID 1 ends
// the wait. The hardware watchdog, which init has armed, is fed meanwhile.
func (w *warden) waitForTurn(dog *watchdog, tell func(console.Level, string)) {
	said := false
	for !w.hurry.Load() {
		now, wait, _ := forced.force(console.BootTime()) // counted or not, the machine must restart
		if now {
			return
		}
		if !said {
			said = true
			tell(console.Error, fmt.Sprintf("init is dead; rebooting in %s, so as not to make a storm of reboots", wait.Round(time.Second)))
		}
		_ = dog.feed() // if it fails, it restarts the machine, which is what we wait for
		<-time.After(min(wait, dog.interval()))
	}
}

// endOrphans ends what init left running.
func endOrphans() {
	_ = unix.Kill(-1, unix.SIGTERM) // ESRCH: nothing is left
	<-time.After(orphansGrace)
	killAll()
}

// reapAll reaps for as long as the machine runs.
func reapAll() {
	for {
		if _, err := syscall.Wait4(-1, nil, 0, nil); err == syscall.ECHILD {
			<-time.After(100 * time.Millisecond)
		}
	}
}
