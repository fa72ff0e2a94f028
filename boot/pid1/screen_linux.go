package pid1

import (
	"fmt"
	"os"
	"strings"
	"time"

	"reveille/boot/proc"
	"reveille/console"
)

const (
	// drawEvery is how often the status screen is looked at: a person reads no
	// faster, and a BMC that films the display has something better to do.
	drawEvery = time.Second
	// keptRecent is how many warnings and errors the screen may have room for.
	keptRecent = 16
	// quiet is three signs of life of the agent that did not come.
	quiet = 6 * time.Second
)

// findScreen returns the status screen, nil if the command line turns it off or
// the kernel has no virtual terminal; then the error says so.
func findScreen() (*console.VT, error) {
	cmdline, _ := os.ReadFile("/proc/cmdline") // without it the screen is on
	if !console.StatusScreen(string(cmdline)) {
		return nil, nil
	}
	return console.OpenVT("/dev")
}

// startScreen starts the status screen and tells whether there is one.
func (i *Init) startScreen() bool {
	vt, err := findScreen()
	if err != nil {
		i.info("consoles: no status screen: %v", err)
	}
	if vt == nil {
		return false
	}
	i.redraw = make(chan chan struct{}, 1)
	go i.keepScreen(vt.Draw)
	return true
}

// keepScreen draws the status screen for as long as the machine runs. The
// kernel may hold it, and so nobody waits for it.
func (i *Init) keepScreen(draw func(console.View) error) {
	failed := complaint{}
	for {
		err := draw(i.view())
		switch {
		case err == nil:
			failed.anew("")
		case failed.anew(err.Error()):
			i.warn("%v; next try in %s", err, drawEvery)
		}
		select {
		case done := <-i.redraw:
			if draw(i.view()) == nil { // an error was said, or will be
				close(done)
			}
		case <-time.After(drawEvery):
		}
	}
}

// drawNow has the screen drawn at once, and waits for it a moment.
func (i *Init) drawNow(limit time.Duration) {
	done := make(chan struct{})
	select {
	case i.redraw <- done:
	default:
		return
	}
	select {
	case <-done:
	case <-time.After(limit):
	}
}

// view is what init knows, as the status screen shows it.
func (i *Init) view() console.View {
	lastBoot := i.records.previous()
	consoles := i.consoleNames()
	i.mu.Lock()
	defer i.mu.Unlock()
	silent := time.Since(i.heard)
	v := console.View{
		Name: i.progress.Facts.Name, Build: i.options.BuildID, Now: time.Now(), Uptime: console.BootTime(),
		Waiting: i.awaited(silent), Ending: i.ending, Crash: i.crashed, Recent: i.newest.Records(),
	}
	for _, s := range i.progress.Stages {
		sv := console.StageView{Name: s.Name, State: string(s.State), For: s.For}
		if s.State != proc.StagePending && s.State != proc.StageDone && i.agentDown == "" {
			sv.For += silent
		}
		v.Stages = append(v.Stages, sv)
	}
	f := i.progress.Facts
	v.Facts = facts(
		console.Fact{Name: "addresses", Text: strings.Join(f.Addresses, " ")},
		console.Fact{Name: "cluster", Text: f.Cluster},
		console.Fact{Name: "config", Text: f.Config},
		console.Fact{Name: "last boot", Text: lastBoot},
		console.Fact{Name: "consoles", Text: consoles},
	)
	if n := i.crashes.Count; n > 0 {
		v.Facts = append(v.Facts, console.Fact{Name: "crashes", Text: fmt.Sprintf("%d of the agent in this boot", n)})
	}
	return v
}

// awaited is what the boot waits for: the agent, or what that says. Called with
// the lock held.
func (i *Init) awaited(silent time.Duration) string {
	switch {
	case i.agentDown != "":
		return i.agentDown
	case i.progress.Stage == "":
		return "the agent has not reported yet"
	case silent > quiet:
		return fmt.Sprintf("no sign of the agent for %s; it is killed and started again after %s", silent.Round(time.Second), i.hungAfter)
	}
	return i.progress.Waiting
}

// facts leaves out what is not known.
func facts(all ...console.Fact) (known []console.Fact) {
	for _, f := range all {
		if f.Text != "" {
			known = append(known, f)
		}
	}
	return known
}

// consoleNames are the consoles that show lines, and those that do not.
func (i *Init) consoleNames() string {
	var names []string
	for _, s := range i.screens.Stats() {
		name := s.Name
		if s.Stalled {
			name += " (stalled)"
		}
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// showDeath is the warden's status screen: init's last words in place of what
// init knew. line says what happens next.
func (w *warden) showDeath(c console.CrashReport, line string) {
	vt, err := findScreen()
	if vt == nil || err != nil {
		return // the other consoles have it
	}
	host, _ := os.Hostname() // the agent set it, or there is none
	trace := strings.Split(console.Clean(c.Trace), "\n")
	_ = vt.Draw(console.View{ // likewise
		Name: host, Build: w.options.BuildID, Now: time.Now(), Uptime: console.BootTime(),
		Ending: line, Crash: append(c.Summary, trace...),
	})
}
