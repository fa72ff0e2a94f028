package console

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

const (
	// factsAt is where the facts begin: a stage's row takes 26 columns.
	factsAt = 29
	// What is awaited matters most and may take four rows of 80; a crash's
	// summary has four lines as a rule; an error with its cause chain fits two.
	maxWaitingRows, maxCrashRows, maxRecentRows, maxFactRows = 4, 6, 2, 3
)

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
