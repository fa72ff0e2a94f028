package console

import (
	"slices"
	"strconv"
	"strings"
)

// override is the parameter that adds to, or takes from, the consoles found:
// "ttyS1,115200;ttyS2" adds or sets a speed, "-ttyS0" takes one away, "-*"
// all that were found elsewhere.
const override = "reveille.console="

// parseSpec reads what stands behind console=: a device with options, or a
// UART address ("uart8250,io,0x3f8,115200n8").
func parseSpec(s string) (spec Spec, addr uint64, ok bool) {
	name, opts, _ := strings.Cut(s, ",")
	if name == "uart" || name == "uart8250" {
		return parseUART(opts)
	}
	name = strings.TrimPrefix(name, "/dev/")
	kind, ok := kindOf(name)
	if !ok {
		return Spec{}, 0, false
	}
	return Spec{Name: name, Kind: kind, Baud: parseBaud(opts)}, 0, true
}

// parseUART reads "io,0x3f8,115200n8" (Documentation/admin-guide/kernel-parameters).
func parseUART(s string) (spec Spec, addr uint64, ok bool) {
	_, s, _ = strings.Cut(s, ",")
	where, opts, _ := strings.Cut(s, ",")
	addr, err := strconv.ParseUint(where, 0, 64)
	return Spec{Kind: Serial, Baud: parseBaud(opts)}, addr, err == nil && addr != 0
}

// parseBaud reads the speed off "115200n8r"; 0 when there is none.
func parseBaud(s string) int {
	digits := 0
	for digits < len(s) && s[digits] >= '0' && s[digits] <= '9' {
		digits++
	}
	n, err := strconv.Atoi(s[:digits])
	// 4 Mbit/s is what the fastest UARTs do; less than 110 is a typing error.
	if err != nil || n < 110 || n > 4_000_000 {
		return 0
	}
	return n
}

// kindOf knows the devices that can be a console. Netconsole, printers and
// ttynull are no place for us; neither is a name with a path in it.
func kindOf(name string) (Kind, bool) {
	if len(name) > 32 || strings.ContainsAny(name, "/.") {
		return 0, false
	}
	for _, p := range []string{"ttyS", "ttyAMA", "ttyUSB", "ttyMSM", "ttyPS", "ttySC", "ttymxc", "ttyO", "ttyUL", "ttyLP", "ttyTHS", "ttySIF"} {
		if numbered(name, p) {
			return Serial, true
		}
	}
	switch {
	case numbered(name, "hvc"), numbered(name, "xvc"):
		return Hypervisor, true
	case numbered(name, "tty"), name == "tty":
		return Screen, true
	}
	return 0, false
}

func numbered(name, prefix string) bool {
	rest, ok := strings.CutPrefix(name, prefix)
	if !ok || rest == "" {
		return false
	}
	_, err := strconv.ParseUint(rest, 10, 16)
	return err == nil
}

// cmdlineWords splits a kernel command line as the kernel does: at spaces,
// but not inside double quotes. Behind "--" stand init's own arguments.
func cmdlineWords(s string) []string {
	quoted := false
	words := strings.FieldsFunc(s, func(r rune) bool {
		if r == '"' {
			quoted = !quoted
		}
		return !quoted && (r == ' ' || r == '\n' || r == '\t')
	})
	if i := slices.Index(words, "--"); i >= 0 {
		words = words[:i]
	}
	for i := range words {
		words[i] = strings.ReplaceAll(words[i], `"`, "")
	}
	return words
}

// parseConsoles reads the names off /proc/consoles:
// "ttyS0                -W- (EC p a)    4:64".
func parseConsoles(s string) []string {
	var names []string
	for line := range strings.Lines(s) {
		if f := strings.Fields(line); len(f) > 0 {
			names = append(names, f[0])
		}
	}
	return names
}
