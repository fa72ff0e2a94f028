package console

import (
	"fmt"
	"strings"
	"unicode/utf8"
)

// Clean makes text harmless to whoever prints it: control characters and
// bytes that are no UTF-8 become \xNN, a trailing newline goes. \n and \t stay.
func Clean(s string) string {
	s = strings.TrimRight(s, "\r\n")
	if isClean(s) {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 16)
	for i := 0; i < len(s); {
		r, n := utf8.DecodeRuneInString(s[i:])
		switch {
		case s[i] == '\r' && i+1 < len(s) && s[i+1] == '\n': // CRLF is a line end
		case r == utf8.RuneError && n == 1, isControl(r):
			escapeBytes(&b, s[i:i+n])
		default:
			b.WriteString(s[i : i+n])
		}
		i += n
	}
	return b.String()
}

func isClean(s string) bool {
	for i := 0; i < len(s); i++ {
		if c := s[i]; c < ' ' && c != '\n' && c != '\t' || c >= 0x7f {
			return false
		}
	}
	return true
}

// isControl covers C0, DEL and C1 (U+009B is CSI to a UTF-8 terminal).
// Direction overrides can make a terminal show another text than it got.
func isControl(r rune) bool {
	return r < ' ' && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 ||
		r >= 0x202a && r <= 0x202e || r >= 0x2066 && r <= 0x2069
}

func escapeBytes(b *strings.Builder, s string) {
	for i := 0; i < len(s); i++ {
		fmt.Fprintf(b, `\x%02x`, s[i])
	}
}

// lookalikes keep common typography readable on a console without UTF-8.
var lookalikes = strings.NewReplacer(
	"\u2026", "...", "\u2013", "-", "\u2014", "--", "\u2018", "'", "\u2019", "'",
	"\u201c", `"`, "\u201d", `"`, "\u00a0", " ", "\u2192", "->", "\u00b5", "u", "\u03bc", "u",
	"\u00d7", "x", "\u2022", "*")

// ascii replaces what a serial console cannot show. The input is clean.
func ascii(s string) string {
	if isClean(s) {
		return s
	}
	s = lookalikes.Replace(s)
	return strings.Map(func(r rune) rune {
		if r >= 0x7f {
			return '?'
		}
		return r
	}, s)
}

// maxOrigin bounds an origin name; the console column has 13.
const maxOrigin = 32

// cleanOrigin keeps an origin one short word.
func cleanOrigin(s string) string {
	if s == "" {
		return "?"
	}
	if len(s) > maxOrigin {
		s = s[:maxOrigin]
	}
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] >= 0x7f {
			return strings.Map(func(r rune) rune {
				if r <= ' ' || r >= 0x7f {
					return '_'
				}
				return r
			}, s)
		}
	}
	return s
}

// truncate cuts s to at most limit bytes at a rune boundary and says how
// many bytes went.
func truncate(s string, limit int) (string, int) {
	if len(s) <= limit {
		return s, 0
	}
	n := limit
	for n > 0 && n > limit-utf8.UTFMax && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n], len(s) - n
}

// Examples names a collection on one bounded line: "10000 controllers: a, b,
// c and 9997 more". n is how many to name.
func Examples[T any](noun string, items []T, n int) string {
	if len(items) == 0 {
		return "no " + noun
	}
	return fmt.Sprintf("%d %s: %s", len(items), noun, examples(items, n))
}

// maxExample bounds one named item: an IPv6 endpoint with port has 47 bytes.
const maxExample = 64

func examples[T any](items []T, n int) string {
	var b strings.Builder
	n = min(max(n, 0), len(items))
	for i, it := range items[:n] {
		if i > 0 {
			b.WriteString(", ")
		}
		s, cut := truncate(fmt.Sprint(it), maxExample)
		b.WriteString(s)
		if cut > 0 {
			b.WriteString("...")
		}
	}
	if more := len(items) - n; more > 0 {
		fmt.Fprintf(&b, " and %d more", more)
	}
	return b.String()
}

// byteSize prints a size for people, in decimal units as LAN and disk tools do.
func byteSize(n int64) string {
	switch {
	case n >= 1e6:
		return fmt.Sprintf("%.1f MB", float64(n)/1e6)
	case n >= 1e4:
		return fmt.Sprintf("%d kB", n/1e3)
	default:
		return fmt.Sprintf("%d bytes", n)
	}
}
