package console

import (
	"fmt"
	"slices"
	"strings"
)

// The parameters that say what reaches the consoles.
const (
	debugKey  = "reveille.debug"  // debug lines too
	showKey   = "reveille.show"   // see ParseShow
	screenKey = "reveille.screen" // "off": a display shows lines, not the status screen
)

// Threshold is the least level that belongs on consoles by the kernel's
// command line: Info, or Debug with reveille.debug.
func Threshold(cmdline string) Level {
	if switched(cmdline, debugKey, false) {
		return Debug
	}
	return Info
}

// StatusScreen tells whether the kernel's command line leaves the status
// screen on.
func StatusScreen(cmdline string) bool { return switched(cmdline, screenKey, true) }

// switched is what the last mention of a key on a command line says.
func switched(cmdline, key string, otherwise bool) bool {
	on := otherwise
	for _, word := range cmdlineWords(cmdline) {
		if k, value, _ := strings.Cut(word, "="); k == key {
			on = !slices.Contains([]string{"0", "n", "no", "off", "false"}, strings.ToLower(value))
		}
	}
	return on
}

// Show is the least level at which an origin's lines reach the consoles.
type Show struct {
	Origin string // a name, or the beginning of names before a '*': "svc/*"
	Least  Level
}

// Shows are in the order of the command line.
type Shows []Show

// maxShows bounds what every record is compared with.
const maxShows = 32

// ParseShow reads reveille.show=, a list of ORIGIN or ORIGIN:LEVEL with commas:
// "svc/*:warn,svc/etcd,netcfg:debug". Without a level it is all but debug lines,
// and "never" is none at all. Notes say what it cannot read.
func ParseShow(cmdline string) (shows Shows, notes []string) {
	seen := 0
	for _, word := range cmdlineWords(cmdline) {
		list, ok := strings.CutPrefix(word, showKey+"=")
		if !ok {
			continue
		}
		for s := range strings.SplitSeq(list, ",") {
			if seen++; seen > maxShows {
				return shows, append(notes, fmt.Sprintf("%s: more than %d entries, ignoring the rest", showKey, maxShows))
			}
			origin, name, _ := strings.Cut(s, ":")
			least, ok := parseLeast(name)
			if origin == "" || !ok {
				notes = append(notes, fmt.Sprintf("%s: %q is not ORIGIN or ORIGIN:LEVEL, ignoring", showKey, bounded(Clean(s))))
				continue
			}
			shows = append(shows, Show{origin, least})
		}
	}
	return shows, notes
}

func parseLeast(name string) (Level, bool) {
	switch name {
	case "":
		return Info, true
	case Never.String():
		return Never, true
	}
	return ParseLevel(name)
}

// Of is the threshold of an origin, by the last entry that names it, if any does.
func (s Shows) Of(origin string) (least Level, named bool) {
	for _, show := range slices.Backward(s) {
		prefix, any := strings.CutSuffix(show.Origin, "*")
		if show.Origin == origin || any && strings.HasPrefix(origin, prefix) {
			return show.Least, true
		}
	}
	return 0, false
}
