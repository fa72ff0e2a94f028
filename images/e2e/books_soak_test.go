//go:build e2e && soak

package e2e

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"

	"reveille/boot/cluster/operator"
	"reveille/images/rack"
)

// The flood of 50 MB: see init/extra.go.
const (
	floodOrigin = "svc/flood"
	floodLine   = "flood line %06d: the quick brown fox jumps over the lazy dog"
	floodLines  = (50_000_000-1)/(len(floodLine)+len("\n")+len("000001")-len("%06d")) + 1
)

// books are a console's: what was logged for it, and what its far end saw.
type books struct {
	logged         uint64
	shown, counted uint64
	strange        []string // lines that no record has; a line that was cut is one
}

func (b books) String() string {
	return fmt.Sprintf("%d shown + %d counted = %d, %d logged", b.shown, b.counted, b.shown+b.counted, b.logged)
}

// balance tells whether shown and counted make up what was logged, but for the
// lines that were under way when a port failed.
func (b books) balance(underWay uint64) bool {
	more := b.shown + b.counted - b.logged // wraps round when less
	return more <= underWay
}

// underWay is how many lines a port may have been read that count as not shown,
// and are told of once more.
func (l serialLine) underWay(n *rack.Node, port int) uint64 {
	if !l.Fails || port != 0 {
		return 0
	}
	return newTimedText(n.Port(port)).underWay()
}

// underWay is what stands for the lines that were read just before the port
// failed. A card that is pulled answers nothing, not even what it had sent since
// it was looked at last, a quarter of a second before; as much again is for the
// noise. One that told how many were not shown stands for them.
func (s timedText) underWay() (lines uint64) {
	const since = 500 * time.Millisecond
	back := tookRE.FindIndex(s.text)
	if back == nil {
		return 0
	}
	end := len(bytes.TrimRight(s.text[:back[0]], "\r\n"))
	from, failed := end, s.at(end)
	for from > 0 && failed.Sub(s.at(from)) < since {
		from = bytes.LastIndexByte(s.text[:from-1], '\n') + 1
	}
	for _, e := range entries(string(s.text[from:end])) {
		lines += max(1, e.counts)
	}
	return lines
}

// awaitBooks waits until the books balance.
func (l serialLine) awaitBooks(t *testing.T, ctx context.Context, n *rack.Node, port int, flood bool) {
	t.Helper()
	for end := time.Now().Add(bootTime); ; after(ctx, time.Second) {
		b := reckon(records(t, ctx, n), l.shown(n, port), flood)
		strange := len(b.strange) > 0 && !(l.Cut && port == 0) // or the last line is under way
		switch {
		case !strange && b.balance(l.underWay(n, port)):
			t.Logf("port %d: %s, %d lines cut", port, b, len(b.strange))
			return
		case time.Now().After(end):
			t.Errorf("port %d: %s; not in the log: %q", port, b, b.strange)
			return
		}
	}
}

// firstLine is the first that init shows on a console.
const firstLine = "init          I reveille "

// shown is what a port was sent by init.
func (l serialLine) shown(n *rack.Node, port int) string {
	text := string(n.Port(port).Bytes())
	if at := strings.Index(text, firstLine); l.Echoes && port == 0 && at >= 0 {
		return text[strings.LastIndexByte(text[:at], '['):]
	}
	return text
}

func records(t *testing.T, ctx context.Context, n *rack.Node) []operator.Record {
	t.Helper()
	log, err := n.Records(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return log
}

// awaitFlood waits for its last line, and wants every record that is no longer
// in the log to be one of the flood's.
func awaitFlood(t *testing.T, ctx context.Context, n *rack.Node) {
	t.Helper()
	last := fmt.Sprintf(floodLine, floodLines)
	for {
		log := records(t, ctx, n)
		if slices.ContainsFunc(log, func(r operator.Record) bool { return r.Text == last }) {
			onlyFloodIsGone(t, log)
			return
		}
		after(ctx, 2*time.Second)
	}
}

func onlyFloodIsGone(t *testing.T, log []operator.Record) {
	t.Helper()
	gone, flood := uint64(0), uint64(floodLines)
	next := uint64(1)
	for _, r := range log {
		gone += r.Seq - next
		next = r.Seq + 1
		if r.Origin == floodOrigin {
			flood--
		}
	}
	if gone != flood {
		t.Errorf("%d records are gone, %d of them are the flood's", gone, flood)
	}
}

// reckon compares a node's log with what a console showed of it.
func reckon(log []operator.Record, text string, flood bool) (b books) {
	texts := map[string][]string{}
	for _, r := range log {
		k := key(fmt.Sprintf("%.3f", r.UptimeSeconds), r.Origin, strings.ToUpper(r.Level[:1]))
		texts[k] = append(texts[k], squeeze(r.Text))
		if reachesConsoles(r) {
			b.logged++
		}
	}
	if flood {
		b.logged += uint64(floodLines)
	}
	for _, e := range entries(text) {
		switch times := e.times(texts[e.key]); {
		case e.counts > 0:
			b.counted += e.counts
		case times > 0:
			b.shown += times
		case !e.own:
			b.strange = append(b.strange, e.text)
		}
	}
	return b
}

// reachesConsoles tells whether consoles are offered a record: of the kernel's,
// which is told to be quiet, errors; of services' none but the
// flood, whose records are mostly gone and counted by their number.
func reachesConsoles(r operator.Record) bool {
	switch {
	case strings.HasPrefix(r.Origin, "svc/"):
		return false
	case r.Origin == "kernel", r.Origin == "kmsg":
		return r.Level == "error"
	}
	return r.Level != "debug"
}

// entry is a record as a console shows it, its lines joined, or something that
// the console says itself.
type entry struct {
	key    string
	text   string
	own    bool   // the console's own words
	counts uint64 // of a line that tells how many are not shown
}

var (
	headRE    = regexp.MustCompile(`^\[ *([0-9]+\.[0-9]{3})\] (.{13}) ([DISWEC]) (.*)$`)
	noticeRE  = regexp.MustCompile(`^-- \d+ lines? not shown \((.*)\); all are in the log --$`)
	kernelRE  = regexp.MustCompile(`^\[ *[0-9]+\.[0-9]{6}\] `) // printed by the kernel, before init
	tookRE    = regexp.MustCompile(`(?m)^-- \S+ took nothing for \S+ --\r?$`)
	timesRE   = regexp.MustCompile(`x(\d+)$`)
	excerptRE = regexp.MustCompile(`\(\+[^()]*\)$`)
	floodRE   = regexp.MustCompile(`^floodline\d{6}:thequickbrownfoxjumpsoverthelazydog$`)
)

func key(stamp, origin, letter string) string {
	return stamp + " " + strings.TrimSpace(origin[:min(len(origin), 13)]) + " " + letter
}

// squeeze takes out the white space, which a console changes where it wraps.
func squeeze(s string) string {
	return strings.Map(func(r rune) rune {
		if unicode.IsSpace(r) {
			return -1
		}
		return r
	}, s)
}

func entries(text string) (all []entry) {
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimRight(line, "\r")
		m := headRE.FindStringSubmatch(line)
		switch {
		case line == "":
		case m != nil:
			all = append(all, entry{key: key(m[1], m[2], m[3]), text: squeeze(m[4]), own: strings.TrimSpace(m[2]) == "state"})
		case strings.HasPrefix(line, "    ") && len(all) > 0:
			all[len(all)-1].text += squeeze(line)
		case tookRE.MatchString(line), kernelRE.MatchString(line):
			all = append(all, entry{own: true})
		default:
			all = append(all, entry{text: line, counts: noticeCount(line)})
		}
	}
	return all
}

func noticeCount(line string) (n uint64) {
	m := noticeRE.FindStringSubmatch(line)
	if m == nil {
		return 0
	}
	for part := range strings.SplitSeq(m[1], ", ") {
		k, _ := strconv.ParseUint(part[2:], 10, 64) // the pattern of the line is ours
		n += k
	}
	return n
}

// times is how many records the entry stands for: 0 if it is none of these,
// whole.
func (e entry) times(texts []string) uint64 {
	if e.isOne(texts, e.text) {
		return 1
	}
	if m := timesRE.FindStringSubmatch(e.text); m != nil && e.isOne(texts, strings.TrimSuffix(e.text, m[0])) {
		n, _ := strconv.ParseUint(m[1], 10, 64)
		return n
	}
	return 0
}

func (e entry) isOne(texts []string, text string) bool {
	if strings.Contains(e.key, " "+floodOrigin+" ") {
		return floodRE.MatchString(text)
	}
	part := excerptRE.FindString(text)
	return slices.ContainsFunc(texts, func(whole string) bool {
		return whole == text || part != "" && strings.HasPrefix(whole, strings.TrimSuffix(text, part))
	})
}
