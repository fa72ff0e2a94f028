package modules

import "strings"

// fnmatch is fnmatch(3) without flags, as depmod's aliases are meant: `*` also
// matches a slash, a backslash quotes, a bracket opens a class. path.Match is
// not used because its `*` stops at a slash and a malformed pattern is an error
// there; here an unclosed bracket is an ordinary character.
//
// It runs in O(len(pattern) * len(s)): only the last star is ever retried.
func fnmatch(pattern, s string) bool {
	star, mark := -1, 0 // where to resume: after the last star, at this byte of s
	p, i := 0, 0
	for i < len(s) {
		if p < len(pattern) && pattern[p] == '*' {
			star, mark = p+1, i
			p++
			continue
		}
		if width, ok := matchOne(pattern[p:], s[i]); ok {
			p += width
			i++
			continue
		}
		if star < 0 {
			return false
		}
		mark++
		p, i = star, mark
	}
	return strings.Trim(pattern[p:], "*") == ""
}

// matchOne matches the pattern's first element with one byte; width is how much
// of the pattern that element took.
func matchOne(pattern string, c byte) (width int, ok bool) {
	if pattern == "" {
		return 0, false
	}
	switch pattern[0] {
	case '?':
		return 1, true
	case '\\':
		if len(pattern) > 1 {
			return 2, pattern[1] == c
		}
	case '[':
		if width, ok := matchClass(pattern, c); width > 0 {
			return width, ok
		}
	}
	return 1, pattern[0] == c
}

// matchClass matches "[a-z]" or "[!a-z]"; width 0 means that it is not closed.
func matchClass(pattern string, c byte) (width int, ok bool) {
	i := 1
	negate := i < len(pattern) && (pattern[i] == '!' || pattern[i] == '^')
	if negate {
		i++
	}
	for first := true; i < len(pattern); first = false {
		lo := pattern[i]
		if lo == ']' && !first {
			return i + 1, ok != negate
		}
		i++
		hi := lo
		if i+1 < len(pattern) && pattern[i] == '-' && pattern[i+1] != ']' {
			hi = pattern[i+1]
			i += 2
		}
		ok = ok || lo <= c && c <= hi
	}
	return 0, false
}
