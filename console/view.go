package console

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
)

// View is what the status screen shows: where the boot is, why it is not
// further, and what went wrong. Texts may be anything; they are made ASCII.
type View struct {
	Name   string        // of the node; empty while unknown
	Build  string        // build id
	Now    time.Time     // of the machine's clock: a wrong one explains much
	Uptime time.Duration // of the machine

	Stages  []StageView // in the order of the boot
	Facts   []Fact      // what is true now
	Waiting string      // what is awaited or wrong; empty for nothing
	Ending  string      // why the machine stops, and no longer waits for anything
	Crash   []string    // of the last crash, the first lines; empty for none
	Recent  []Recent    // the newest warnings and errors, oldest first
}

// StageView is one boot stage.
type StageView struct {
	Name  string
	State string        // one word: "done"; empty: not begun
	For   time.Duration // that it took, or has been at it
}

// Fact is a word and what it is now: "addresses", "10.0.2.15 fd00::15".
type Fact struct{ Name, Text string }

// Style is how a line stands out.
type Style uint8

// The styles of a status screen.
const (
	Plain Style = iota
	Title
	Warning
	Alarm
)

// Line is one row of a screen, padded to its width.
type Line struct {
	Style Style
	Text  string
}

// From this size on the stages stand beside the facts, each in a row of its
// own; 80x25 is what VGA starts with. Smaller screens name the current stage only.
const wideCols, tallRows = 72, 20

// The states of a stage that look different here; boot/proc has all of them.
const stageDone, stageHeld = "done", "held"

// Render lays the view out on a screen of cols x rows. It always returns rows
// lines of cols ASCII bytes; what does not fit gives way from below.
func (v View) Render(cols, rows int) []Line {
	if cols < 1 || rows < 1 {
		return nil
	}
	p := page{cols: cols}
	p.add(Title, v.title(cols))
	wide := cols >= wideCols && rows >= tallRows && len(v.Stages) > 0
	switch {
	case wide:
		p.gap()
		p.table(v)
	case len(v.Stages) > 0:
		p.text(Plain, v.stageLine(), 1)
	}
	p.gapIf(rows >= tallRows)
	switch {
	case v.Ending != "":
		p.text(Alarm, v.Ending, maxWaitingRows)
	case v.Waiting != "":
		p.text(Warning, v.waits()+strings.TrimPrefix(v.Waiting, "waiting "), maxWaitingRows)
	default:
		p.text(Plain, cmp.Or(v.atWork(), "waiting for nothing"), 1)
	}
	p.crash(v, rows)
	if !wide {
		for _, f := range v.Facts {
			p.text(Plain, f.Name+": "+f.Text, 1)
		}
	}
	p.recent(v.news(), rows)
	return p.fill(rows)
}

// title is the most of name, build, clock and uptime that fits.
func (v View) title(cols int) string {
	name := " " + cmp.Or(v.Name, "(no name yet)")
	up := "up " + roughly(v.Uptime) + " "
	date := v.Now.UTC().Format("2006-01-02 15:04 UTC  ")
	for _, t := range [][2]string{
		{name + "  reveille " + v.Build, date + up}, {name, date + up}, {name, up},
	} {
		if gap := cols - len(t[0]) - len(t[1]); gap > 1 {
			return t[0] + strings.Repeat(" ", gap) + t[1]
		}
	}
	return name
}

// stageLine is the boot in one line, for a screen too small for its table.
func (v View) stageLine() string {
	done := 0
	at := ""
	for _, s := range v.Stages {
		switch {
		case s.State == stageDone:
			done++
		case at == "" && s.State != "":
			at = fmt.Sprintf("%s %s %s, ", s.Name, s.State, roughly(s.For))
		}
	}
	return fmt.Sprintf("%s%d of %d stages done", at, done, len(v.Stages))
}

// waits says for whom: the stage that Waiting is of is the first not done.
func (v View) waits() string {
	for _, s := range v.Stages {
		if s.State == stageHeld {
			return "held until a reboot: "
		}
		if s.State != stageDone {
			break
		}
	}
	return "waiting: "
}

// atWork names the stages that run; empty if none does.
func (v View) atWork() string {
	var names []string
	for _, s := range v.Stages {
		if s.State != "" && s.State != stageDone {
			names = append(names, s.Name)
		}
	}
	if len(names) == 0 {
		return ""
	}
	return "at work: " + strings.Join(names, ", ")
}

// news is the recent records without those that say what is awaited now: it
// stands above them.
func (v View) news() []Recent {
	now := shape(strings.TrimPrefix(v.Waiting, "waiting "))
	if now == "" {
		return v.Recent
	}
	return slices.DeleteFunc(slices.Clone(v.Recent), func(r Recent) bool { return strings.Contains(shape(r.Text), now) })
}
