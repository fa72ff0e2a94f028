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

const (
	// From this size on the stages stand beside the facts, each in a row of
	// its own; 80x25 is what VGA starts with. Smaller screens name the current
	// stage only.
	wideCols, tallRows = 72, 20
	// factsAt is where the facts begin: a stage's row takes 26 columns.
	factsAt = 29
	// What is awaited matters most and may take four rows of 80; a crash's
	// summary has four lines as a rule; an error with its cause chain fits two.
	maxWaitingRows, maxCrashRows, maxRecentRows, maxFactRows = 4, 6, 2, 3
)

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
		case s.State == "done":
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
		if s.State == "held" {
			return "held until a reboot: "
		}
		if s.State != "done" {
			break
		}
	}
	return "waiting: "
}

// atWork names the stages that run; empty if none does.
func (v View) atWork() string {
	var names []string
	for _, s := range v.Stages {
		if s.State != "" && s.State != "done" {
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

// page collects the rows of a screen.
type page struct {
	cols  int
	lines []Line
}

// add appends one row, cut and padded to the width.
func (p *page) add(s Style, text string) {
	text = plain(text)
	if len(text) < p.cols {
		text += strings.Repeat(" ", p.cols-len(text))
	}
	p.lines = append(p.lines, Line{s, text[:p.cols]})
}

// plain is what the cells of a screen can show: nothing moves the cursor.
func plain(text string) string { return unmoving.Replace(ascii(Clean(text))) }

var unmoving = strings.NewReplacer("\n", " ", "\t", "    ")

func (p *page) gap() { p.add(Plain, "") }

func (p *page) gapIf(room bool) {
	if room {
		p.gap()
	}
}

// text appends a text in at most max rows.
func (p *page) text(s Style, text string, max int) {
	for _, row := range folded(text, p.cols-2, max) {
		p.add(s, " "+row)
	}
}

// folded is a text in at most max rows, the last of which says that there is
// more.
func folded(text string, cols, max int) []string {
	rows := fold(plain(oneLine(text)), cols)
	if len(rows) <= max {
		return rows
	}
	rows = rows[:max]
	last := &rows[max-1]
	if len(*last) > cols-3 {
		*last = (*last)[:cols-3]
	}
	*last += "..."
	return rows
}

// table puts the stages on the left and the facts beside them.
func (p *page) table(v View) {
	var left, right []string
	for _, s := range v.Stages {
		row := fmt.Sprintf(" %-11.11s %-8.8s", s.Name, cmp.Or(s.State, "-"))
		if s.State != "" {
			row += " " + roughly(s.For)
		}
		left = append(left, row)
	}
	for _, f := range v.Facts {
		for i, row := range folded(f.Text, p.cols-factsAt-12, maxFactRows) {
			name := f.Name
			if i > 0 {
				name = ""
			}
			right = append(right, fmt.Sprintf("%-10.10s %s", name, row))
		}
	}
	for i := range max(len(left), len(right)) {
		var l, r string
		if i < len(left) {
			l = left[i]
		}
		if i < len(right) {
			r = right[i]
		}
		p.add(Plain, fmt.Sprintf("%-*.*s %s", factsAt-1, factsAt-1, l, r))
	}
}

func (p *page) crash(v View, rows int) {
	if len(v.Crash) == 0 {
		return
	}
	p.gapIf(rows >= tallRows)
	var out []string
	for _, line := range v.Crash {
		out = append(out, fold(plain(line), p.cols-2)...)
	}
	room := maxCrashRows
	if len(v.Recent) == 0 {
		room = max(room, rows-len(p.lines))
	}
	for _, line := range out[:min(len(out), room)] {
		p.add(Alarm, " "+line)
	}
}

// recent appends as many of the newest records as fit, the newest last.
func (p *page) recent(records []Recent, rows int) {
	const heading = 2 // the gap and the heading
	left := rows - len(p.lines) - heading
	var groups [][]Line
	for i := len(records) - 1; i >= 0; i-- {
		var g page
		g.cols = p.cols
		g.text(records[i].style(), records[i].line(), maxRecentRows)
		if left -= len(g.lines); left < 0 {
			break
		}
		groups = append(groups, g.lines)
	}
	if len(groups) == 0 {
		return
	}
	p.gap()
	p.add(Plain, " last warnings and errors:")
	for i := len(groups) - 1; i >= 0; i-- {
		p.lines = append(p.lines, groups[i]...)
	}
}

// fill cuts or pads the page to rows.
func (p *page) fill(rows int) []Line {
	for len(p.lines) < rows {
		p.gap()
	}
	return p.lines[:rows]
}

// roughly is a time as people say it: an age on a screen that is drawn only
// when it changes must not change for nothing.
func roughly(d time.Duration) string {
	s := int(d / time.Second)
	switch {
	case d < 10*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	case s < 60:
		return fmt.Sprintf("%ds", s)
	case s < 3600:
		return fmt.Sprintf("%dm%02ds", s/60, s%60/10*10)
	case s < 24*3600:
		return fmt.Sprintf("%dh%02dm", s/3600, s/60%60)
	}
	return fmt.Sprintf("%dd%02dh", s/(24*3600), s/3600%24)
}
