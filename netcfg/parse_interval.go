package netcfg

import (
	"strconv"
	"strings"
	"time"
)

// timeUnits are systemd's words that netplan's documents use.
var timeUnits = map[string]time.Duration{
	"ms": time.Millisecond, "msec": time.Millisecond,
	"s": time.Second, "sec": time.Second, "second": time.Second, "seconds": time.Second,
	"m": time.Minute, "min": time.Minute, "minute": time.Minute, "minutes": time.Minute,
	"h": time.Hour, "hr": time.Hour, "hour": time.Hour, "hours": time.Hour,
}

// interval is a time with an optional unit, as systemd writes them: a bare
// number counts in bare, the answer in unit, between lo and hi.
func interval(v Value, unit, bare time.Duration, lo, hi int) string {
	s := strings.TrimSpace(v.Scalar())
	digits := strings.TrimRight(s, "abcdefghijklmnopqrstuvwxyz ")
	n, err := strconv.Atoi(digits)
	scale, known := timeUnits[strings.TrimSpace(s[len(digits):])]
	if digits == s {
		scale, known = bare, true
	}
	most := time.Duration(hi) * unit
	switch {
	case err != nil || !known:
		v.Invalid("wants a time like 100, 100ms or 1s")
	case n < 0 || time.Duration(n) > most/scale || time.Duration(n)*scale < time.Duration(lo)*unit:
		v.Unsupported("is out of range: %s to %s", time.Duration(lo)*unit, most)
	case time.Duration(n)*scale%unit != 0:
		v.Unsupported("wants a multiple of %s", unit)
	default:
		return strconv.Itoa(int(time.Duration(n) * scale / unit))
	}
	return "0"
}
