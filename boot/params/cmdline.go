package params

import (
	"fmt"
	"slices"
	"strings"

	"reveille/netcfg"
)

// Settings are the `reveille.` keys of the kernel command line that the agent
// obeys. They override single settings of the node parameters, and are known
// before those.
type Settings struct {
	Node  Secret  // reveille.node=, base64 of a node.yaml and so of a ticket
	TPM   TPMMode // reveille.tpm=; empty when absent
	Fault string  // reveille.fault=; only set in builds with the tag "faults"
}

// settingKeys are the names known below `reveille.`.
var settingKeys = []string{"console", "debug", "fault", "node", "screen", "show", "tpm"}

// ParseCommandLine reads the `reveille.` keys of a kernel command line (the
// text of /proc/cmdline); all other words are somebody else's. The settings
// that are right are returned beside the error that names those that are not,
// because init needs its consoles even when another word is misspelt. The
// error is netcfg.Problems, each with its column.
func ParseCommandLine(line string) (Settings, error) {
	var s Settings
	var ps netcfg.Problems
	for _, w := range words(line) {
		key, ok := strings.CutPrefix(w.key, "reveille.")
		if !ok {
			continue
		}
		if text := s.set(key, w); text != "" {
			ps = append(ps, netcfg.Problem{
				File: "/" + cmdlinePath, Line: 1, Column: w.column, Key: w.key, Text: text,
			})
		}
	}
	if len(ps) > 0 {
		return s, ps
	}
	return s, nil
}

// set takes one word over and returns what is wrong with it.
func (s *Settings) set(key string, w word) (problem string) {
	switch key {
	case "node":
		s.Node = Secret{w.value}
	case "console", "show": // init's, as the next: package console reads them
	case "debug", "screen":
		return ""
	case "fault":
		if !faults {
			return "this build has no fault hooks; use an image built with FAULTS=1"
		}
		s.Fault = w.value
	case "tpm":
		mode, err := parseTPMMode(w.value)
		if err != nil {
			return err.Error()
		}
		s.TPM = mode
	default:
		return "unknown key" + netcfg.Suggest(key, settingKeys)
	}
	if w.value == "" {
		return "needs a value"
	}
	return ""
}

// word is one parameter of a kernel command line.
type word struct {
	key, value string
	column     int // of its first byte, from 1
}

// words splits a kernel command line as next_arg in the kernel's lib/cmdline.c
// does: spaces separate words except between double quotes, a word ends its
// key at the first '=', and quotes around a whole word or a whole value are
// taken off.
func words(line string) []word {
	var out []word
	for i := 0; i < len(line); {
		if isSpace(line[i]) {
			i++
			continue
		}
		end := wordEnd(line[i:]) + i
		out = append(out, splitWord(line[i:end], i+1))
		i = end
	}
	return out
}

func wordEnd(s string) int {
	quoted := false
	for i := range len(s) {
		if isSpace(s[i]) && !quoted {
			return i
		}
		if s[i] == '"' {
			quoted = !quoted
		}
	}
	return len(s)
}

func splitWord(s string, column int) word {
	s, quoted := strings.CutPrefix(s, `"`)
	if quoted {
		s = strings.TrimSuffix(s, `"`)
	}
	key, value, _ := strings.Cut(s, "=")
	if v, ok := strings.CutPrefix(value, `"`); ok {
		value = strings.TrimSuffix(v, `"`)
	}
	return word{key: key, value: value, column: column}
}

// isSpace is the kernel's isspace for the bytes a boot loader can pass.
func isSpace(c byte) bool {
	return c == ' ' || c >= '\t' && c <= '\r' || c == 0xa0
}

func parseTPMMode(s string) (TPMMode, error) {
	if slices.Contains(tpmModes, s) {
		return TPMMode(s), nil
	}
	return "", fmt.Errorf("wants one of %s%s", strings.Join(tpmModes, ", "), netcfg.Suggest(s, tpmModes))
}
