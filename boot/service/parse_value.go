package service

import (
	"math/bits"
	"strconv"
	"strings"
	"time"

	"reveille/netcfg"
)

// timeUnits are those of systemd.time(7) and of Go that an operator writes.
var timeUnits = map[string]time.Duration{
	"ms": time.Millisecond, "msec": time.Millisecond,
	"": time.Second, "s": time.Second, "sec": time.Second,
	"m": time.Minute, "min": time.Minute,
	"h": time.Hour, "hr": time.Hour,
}

// duration is a time as systemd and Kubernetes write it: 10s, 1m30s, 2min,
// 500ms; a bare number counts seconds.
func duration(v netcfg.Value, least, most time.Duration) time.Duration {
	s := v.Scalar()
	if !isText(v) {
		return 0
	}
	d, ok := parseDuration(s)
	switch {
	case !ok:
		v.Invalid("wants a time like 10s, 1m30s or 500ms")
	case d < least || d > most:
		v.Invalid("wants a time from %s to %s", least, most)
	default:
		return d
	}
	return 0
}

func parseDuration(s string) (time.Duration, bool) {
	var total time.Duration
	const most = time.Duration(1 << 61) // 73 years, twice of which do not overflow
	for rest := s; rest != ""; {
		var digits, unit string
		digits, rest = cut(rest, true)
		unit, rest = cut(rest, false)
		unit = strings.TrimSpace(unit)
		n, err := strconv.ParseInt(digits, 10, 64)
		scale, known := timeUnits[unit]
		if err != nil || !known || unit == "" && strings.TrimSpace(s) != digits {
			return 0, false
		}
		if time.Duration(n) > (most-total)/scale {
			return 0, false
		}
		total += time.Duration(n) * scale
	}
	return total, s != ""
}

// cut takes what are digits, or what are none, from the start of s.
func cut(s string, digits bool) (head, rest string) {
	i := strings.IndexFunc(s, func(r rune) bool { return (r >= '0' && r <= '9') != digits })
	if i < 0 {
		return s, ""
	}
	return s[:i], s[i:]
}

// sizeUnits are powers of two, which all systems write the same way. M is left
// out on purpose: it is 1,000,000 to Kubernetes and 1,048,576 to systemd.
var sizeUnits = map[string]uint{"": 0, "Ki": 10, "Mi": 20, "Gi": 30, "Ti": 40}

// size is a number of bytes, 512Mi.
func size(v netcfg.Value, least uint64) uint64 {
	s := v.Scalar()
	if !isText(v) {
		return 0
	}
	digits := strings.TrimRight(s, "KMGTPkmgtpiB")
	n, err := strconv.ParseUint(digits, 10, 64)
	unit := s[len(digits):]
	shift, known := sizeUnits[unit]
	switch {
	case err == nil && !known && sizeUnits[strings.ToUpper(unit[:1])+"i"] > 0:
		v.Invalid("wants a unit that means one thing: %s%si (times 1024), or bytes without a unit", digits, strings.ToUpper(unit[:1]))
	case err != nil || !known || bits.Len64(n)+int(shift) > 63:
		v.Invalid("wants a size like 512Mi or 2Gi")
	case n<<shift < least:
		v.Invalid("is less than %d bytes; is a unit missing, as in 512Mi?", least)
	default:
		return n << shift
	}
	return 0
}
