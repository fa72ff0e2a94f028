package console

import "log/slog"

// Level is the importance of a record, and decides the lane it takes to a
// console. Higher is more important; Stage sorts between Info and Warn for
// filters, but travels ahead of Warn on a short console (see laneOf).
type Level uint8

// The levels, with the letter each has on a console: D I S W E C.
const (
	Debug Level = iota
	Info
	Stage // a boot stage began, ended or changed
	Warn
	Error
	Crash // reserved for init: crash summaries, traces, reasons to reboot
	numLevels

	// Never is a console threshold that no record reaches.
	Never Level = 255
)

// LevelStage is Stage for slog callers: between slog.LevelInfo and slog.LevelWarn.
const LevelStage = slog.Level(2)

const letters = "DISWEC"

// Letter is the level as it stands on a console line; '?' when unknown.
func (l Level) Letter() byte {
	if int(l) >= len(letters) {
		return '?'
	}
	return letters[l]
}

var levelNames = [numLevels]string{"debug", "info", "stage", "warn", "error", "crash"}

// String is the lower-case name, as filters and JSON use it.
func (l Level) String() string {
	if l >= numLevels {
		return "never"
	}
	return levelNames[l]
}

// ParseLevel is the inverse of String.
func ParseLevel(s string) (Level, bool) {
	for i, name := range levelNames {
		if s == name {
			return Level(i), true
		}
	}
	return Info, false
}

// LevelOf maps a slog level. It never returns Crash: a process cannot claim
// the crash lane for itself.
func LevelOf(l slog.Level) Level {
	switch {
	case l < slog.LevelInfo:
		return Debug
	case l < LevelStage:
		return Info
	case l < slog.LevelWarn:
		return Stage
	case l < slog.LevelError:
		return Warn
	default:
		return Error
	}
}

// Counts holds a number of records per level.
type Counts [numLevels]uint64

// Total is the sum over all levels.
func (c Counts) Total() uint64 {
	var n uint64
	for _, v := range c {
		n += v
	}
	return n
}

func (c *Counts) add(o Counts) {
	for i, v := range o {
		c[i] += v
	}
}
