package console

import (
	"fmt"
	"strings"
	"time"
)

const (
	// lineWidth leaves two of the 100 bytes of a console line for CR LF.
	lineWidth = 98
	// A record on a console is an excerpt: enough for a sentence with its
	// cause chain (2 s at 200 B/s), never a careless caller's whole list.
	excerptLines = 4
	excerptBytes = 330
	// indent marks what continues a record. Short: a slow console pays for it.
	indent = "    "
	// maxTraceLine bounds one verbatim line of a crash; Go's longest frames
	// are method names with a dozen arguments, some 300 bytes.
	maxTraceLine = 480
)

// layout renders a record as console lines without line ends. Budget is the
// number of bytes that a crash may take.
func layout(r Record, times uint64, budget int) []string {
	head := header(r.Uptime, r.Origin, r.Level)
	if r.Level == Crash {
		return verbatim(head, r, budget)
	}
	lines, rest := excerpt(r)
	if times > 1 {
		lines[0] += fmt.Sprintf(" x%d", times)
	}
	var out []string
	for i, line := range lines {
		if i == 0 {
			line = head + line
		} else {
			line = indent + line
		}
		out = append(out, wrap(line)...)
	}
	if rest != "" {
		out = append(out, indent+rest)
	}
	return out
}

// header is "[   12.345] netcfg        I ".
func header(at time.Duration, origin string, level Level) string {
	return fmt.Sprintf("[%9.3f] %-13.13s %c ", at.Seconds(), origin, level.Letter())
}

// excerpt is the part of a text that a console shows, and what to say about
// the remainder.
func excerpt(r Record) (lines []string, rest string) {
	text := strings.ReplaceAll(r.Text, "\t", " ")
	left := excerptBytes
	for {
		line, more, found := strings.Cut(text, "\n")
		shown, cut := truncate(line, left)
		left -= len(shown)
		lines = append(lines, ascii(shown))
		if cut > 0 {
			text = line[len(shown):] + "\n" + more
			break
		}
		if text = more; !found {
			break
		}
		if len(lines) == excerptLines || left == 0 {
			break
		}
	}
	return lines, remainder(strings.TrimRight(text, "\n"), r.Cut)
}

// remainder says what of a record is not on the console.
func remainder(text string, cut int64) string {
	if text == "" && cut == 0 {
		return ""
	}
	more := byteSize(int64(len(text)) + cut)
	if n := strings.Count(text, "\n"); n > 0 {
		more = fmt.Sprintf("%d lines, %s", n+1, more)
	}
	if cut > 0 {
		return fmt.Sprintf("(+%s; the log lacks %s of it)", more, byteSize(cut))
	}
	return fmt.Sprintf("(+%s; all in the log)", more)
}

// wrap breaks a line at spaces where it can, so that each part fits.
func wrap(line string) []string { return fold(line, lineWidth) }

// fold is wrap for a line of any width; one that is too narrow for an indent
// is cut.
func fold(line string, width int) []string {
	if width < 3*len(indent) {
		return []string{line[:max(min(len(line), width), 0)]}
	}
	var out []string
	for len(line) > width {
		at := width
		// An address or a hash is worth more in one piece than a full line; only
		// what is longer than two thirds of a line is broken.
		if sp := strings.LastIndexByte(line[:width+1], ' '); sp > width/3 {
			at = sp
		}
		out = append(out, line[:at])
		line = indent + strings.TrimPrefix(line[at:], " ")
	}
	return append(out, line)
}

// verbatim keeps a crash as it was written, byte for byte where that is
// ASCII, so that it can be compared, searched and pasted: the rule of 100
// bytes a line gives way here.
func verbatim(head string, r Record, budget int) []string {
	var out []string
	text, used := r.Text, 0
	for text != "" {
		line, more, _ := strings.Cut(text, "\n")
		shown, cut := truncate(line, maxTraceLine)
		shown = ascii(shown)
		if cut > 0 {
			shown += "..."
		}
		if used += len(shown) + 2; used > budget && len(out) > 0 {
			return append(out, traceCut(int64(len(text))+r.Cut))
		}
		out = append(out, head+shown)
		head, text = "", more
	}
	return out
}

// traceCut stands for so many bytes of a trace.
func traceCut(missing int64) string {
	return fmt.Sprintf("-- %s of trace not shown; all that was kept is in the log --", byteSize(missing))
}

// dropNotice tells what a console did not show.
func dropNotice(c Counts) string {
	var by []string
	for l := range numLevels {
		if c[l] > 0 {
			by = append(by, fmt.Sprintf("%c %d", l.Letter(), c[l]))
		}
	}
	lines := "lines"
	if c.Total() == 1 {
		lines = "line"
	}
	return fmt.Sprintf("-- %d %s not shown (%s); all are in the log --", c.Total(), lines, strings.Join(by, ", "))
}
