//go:build e2e && soak

package e2e

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"reveille/boot/cluster/operator"
	"reveille/images/bench"
)

// TestReckon checks the checker: books that balance, and books that do not.
func TestReckon(t *testing.T) {
	long := strings.Repeat("word ", 60) + "end\nand a second line"
	log := []operator.Record{
		{UptimeSeconds: 0.5, Origin: "kernel", Level: "info", Text: "hidden"},
		{UptimeSeconds: 1, Origin: "kernel", Level: "error", Text: "two\n  lines"},
		{UptimeSeconds: 2, Origin: "init", Level: "info", Text: "short"},
		{UptimeSeconds: 3, Origin: "a-long-origin-name", Level: "info", Text: long},
		{UptimeSeconds: 4, Origin: "join", Level: "warn", Text: "again"},
		{UptimeSeconds: 5, Origin: "join", Level: "warn", Text: "again"},
		{UptimeSeconds: 6, Origin: "join", Level: "debug", Text: "hidden"},
		{UptimeSeconds: 7, Origin: "svc/watch", Level: "info", Text: "hidden"},
		{UptimeSeconds: 8, Origin: floodOrigin, Level: "info", Text: fmt.Sprintf(floodLine, 7)},
		{UptimeSeconds: 9, Origin: "steady", Level: "stage", Text: "done"},
	}
	shown := "[    0.056000] printed by the kernel\r\n" +
		"[    1.000] kernel        E two\r\n      lines\r\n" +
		"[    2.000] init          I short\r\n" +
		"[    3.000] a-long-origin I word word word\r\n    word\r\n    (+300 bytes; all in the log)\r\n" +
		"[    4.000] join          W again x2\r\n" +
		"[    4.500] state         S stage join\r\n" +
		"[    8.000] svc/flood     I flood line 000007: the quick brown fox jumps over\r\n    the lazy dog\r\n" +
		fmt.Sprintf("-- %d lines not shown (I %d, S 1); all are in the log --\r\n", floodLines, floodLines-1)
	b := reckon(log, shown, true)
	if b.shown != 6 || b.counted != uint64(floodLines) || b.logged != uint64(floodLines)+6 || len(b.strange) > 0 {
		t.Errorf("%s, strange %q", b, b.strange)
	}
	for _, cut := range []string{"[    9.000] steady        S do", "[    9.00", "[    9.100] steady        S done", "[    2.000] init          I short x"} {
		if b := reckon(log, shown+cut, true); len(b.strange) != 1 || b.shown != 6 {
			t.Errorf("%q: %s, strange %q", cut, b, b.strange)
		}
	}
}

// TestUnderWay has a card pulled just after it had sent three lines, one of
// which stood for forty.
func TestUnderWay(t *testing.T) {
	pulled := time.Unix(1e9, 0)
	var shown timedText
	for _, c := range []bench.Chunk{
		{At: pulled.Add(-time.Second), Data: []byte("[    1.000] init          I long before\r\n[    2.000] ")},
		{At: pulled.Add(-400 * time.Millisecond), Data: []byte("init          I begun before\r\n-- 40 lines not shown (I 40); all are in the log --\r\n")},
		{At: pulled, Data: []byte("[    3.000] init          I cut he")},
		{At: pulled.Add(time.Minute), Data: []byte("\r\n-- ttyS0 took nothing for 60s --\r\n[    4.000] init          I after\r\n")},
	} {
		shown.chunks = append(shown.chunks, c)
		shown.text = append(shown.text, c.Data...)
		shown.ends = append(shown.ends, len(shown.text))
	}
	if got, want := shown.underWay(), uint64(1+40+1); got != want {
		t.Errorf("%d lines were under way, want %d", got, want)
	}
}
