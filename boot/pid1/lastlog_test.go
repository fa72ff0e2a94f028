package pid1

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"reveille/console"
)

// TestLastLog: what is read is the end of what was logged, from a line's
// beginning on, whatever was logged and wherever the ring ends.
func TestLastLog(t *testing.T) {
	for _, records := range []int{0, 1, 700, 5000} {
		f, last := newLastLog(t)
		log := console.NewLog(console.DefaultLimits(), func() time.Duration { return 1500 * time.Millisecond })
		log.Tee(last.add)
		var all strings.Builder
		for n := range records {
			text := fmt.Sprint("record ", n, strings.Repeat(" and more", n%200))
			fmt.Fprintf(&all, "[    1.500] boot          I %s\n", text[:min(len(text), maxLastText)])
			log.Append("boot", console.Info, text)
			log.Append(console.CrashOrigin, console.Crash, "a crash has a record of its own")
		}
		got := string(readLastLog(f))
		if !strings.HasSuffix(all.String(), got) || got != "" && !strings.HasPrefix(got, "[    1.500] boot") {
			t.Errorf("%d records: read %.200q ... of %d bytes", records, got, len(got))
		}
		if least := min(all.Len(), lastLogSize-4*maxLastText); len(got) < least {
			t.Errorf("%d records: read %d bytes, want %d at least", records, len(got), least)
		}
	}
}

// TestLastLogCutShort: init dies while it copies, so before it says so. What it
// was about to say is missing, and nothing else but some of the oldest.
func TestLastLogCutShort(t *testing.T) {
	f, last := newLastLog(t)
	for n := range 2000 {
		last.add(console.Record{Origin: "boot", Text: fmt.Sprint("record ", n, strings.Repeat(".", 90))})
	}
	before, written := string(readLastLog(f)), last.written().Load()
	last.add(console.Record{Origin: "boot", Text: strings.Repeat("x", maxLastText)})
	last.written().Store(written)
	if got := string(readLastLog(f)); got != before || !strings.HasSuffix(got, "record 1999"+strings.Repeat(".", 90)+"\n") {
		t.Errorf("read %d bytes, %d before; the end: %q", len(got), len(before), got[max(0, len(got)-200):])
	}
}

// TestLastLogHasNoSecret: it goes to the disk.
func TestLastLogHasNoSecret(t *testing.T) {
	f, last := newLastLog(t)
	last.add(console.Record{Origin: "kernel", Text: "Kernel command line: quiet reveille.node=dGhlLXRpY2tldA== panic=-1"})
	if got := string(readLastLog(f)); strings.Contains(got, "dGhlLXRpY2tldA") || !strings.Contains(got, "panic=-1") {
		t.Errorf("%q", got)
	}
}

// TestAppendLine holds it against the format that it stands for.
func TestAppendLine(t *testing.T) {
	for _, r := range []console.Record{
		{},
		{Uptime: 1234500 * time.Microsecond, Origin: "boot", Level: console.Warn, Text: "text\nof two lines"},
		{Uptime: 1e6 * time.Hour, Origin: "svc/a-long-name", Level: console.Crash},
	} {
		want := fmt.Sprintf("[%9.3f] %-12s  %c %s\n", r.Uptime.Seconds(), r.Origin, r.Level.Letter(), r.Text)
		if got := string(appendLine(nil, r)); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func BenchmarkLastLog(b *testing.B) {
	f, err := newMemory("log")
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	last, err := mapLastLog(f)
	if err != nil {
		b.Fatal(err)
	}
	r := console.Record{Uptime: 12345 * time.Millisecond, Origin: "svc/etcd", Text: strings.Repeat("x", 60)}
	for b.Loop() {
		last.add(r)
	}
}

func newLastLog(t *testing.T) (*os.File, *lastLog) {
	t.Helper()
	f, err := newMemory("log")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	last, err := mapLastLog(f)
	if err != nil {
		t.Fatal(err)
	}
	return f, last
}
