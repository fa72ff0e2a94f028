package crash

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func sample() Record {
	return Record{
		Kind: Agent, BootID: "5f0c9d9e-6a43-4c9c-8a11-0c6f0f2f9a10", Node: "n1", Build: "abc", Incarnation: 2, Stage: "join",
		Uptime: 12345 * time.Millisecond, Ran: time.Second, Time: time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC),
		WaitStatus: "exit status 2", Reason: "panic: boom", Frame: "boot.join (boot/join.go:7)",
		Summary: []string{"agent crashed: panic: boom"}, Written: 11,
		Trace: []byte("panic: boom"), Log: []byte("[    1.000] netcfg        I bond0 up\n"), Dmesg: []byte("<4>oops\n"),
	}
}

func TestRecordSurvives(t *testing.T) {
	raw := sample().Encode()
	got, n, err := Parse(append(bytes.Clone(raw), "rest of a slot"...))
	if err != nil || n != len(raw) {
		t.Fatalf("%d of %d bytes, %v", n, len(raw), err)
	}
	if diff := cmp.Diff(sample(), got); diff != "" {
		t.Error(diff)
	}
	if again := got.Encode(); !bytes.Equal(again, raw) || ID(again) != ID(raw) || len(ID(raw)) != 16 {
		t.Errorf("encoded again, the record is another: %s, %s", ID(again), ID(raw))
	}
}

func TestRecordIsBounded(t *testing.T) {
	r := sample()
	r.Reason, r.Stage = strings.Repeat("\x00", 4096), strings.Repeat("é", 4096)
	r.Time = time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 1000 {
		r.Summary = append(r.Summary, strings.Repeat("\"\u2028<\xff\x00", 999))
	}
	r.Trace = bytes.Repeat([]byte("goroutine 1\n"), 1<<20)
	r.Log = bytes.Repeat([]byte("a line of log\n"), 1<<20)
	r.Dmesg = bytes.Repeat([]byte("a line of dmesg\n"), 1<<20)
	raw := r.Encode()
	if len(raw) > MaxRecord {
		t.Fatalf("%d bytes", len(raw))
	}
	got, _, err := Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Trace) != maxTrace || !bytes.HasPrefix(got.Log, []byte("a line of log\n")) || !bytes.HasPrefix(got.Dmesg, []byte("a line of dmesg\n")) {
		t.Errorf("kept %d bytes of trace, log %.20q, dmesg %.20q", len(got.Trace), got.Log, got.Dmesg)
	}
}

func TestEveryFlippedByteIsRefused(t *testing.T) {
	raw := sample().Encode()
	for i := range raw {
		bad := bytes.Clone(raw)
		bad[i] ^= 0x40
		if _, _, err := Parse(bad); !errors.Is(err, ErrCorrupt) {
			t.Errorf("byte %d: %v", i, err)
		}
	}
	for n := headerSize; n < len(raw); n++ {
		if _, _, err := Parse(raw[:n]); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
	if _, _, err := Parse(make([]byte, slotSize)); !errors.Is(err, ErrBlank) {
		t.Errorf("zeros: %v", err)
	}
}

func TestRedact(t *testing.T) {
	for in, want := range map[string]string{
		"plain": "plain",
		"Command line: quiet reveille.node=dmVyc2lvbg== panic=-1\nreveille.node=x": "Command line: quiet reveille.node=[not shown] panic=-1\nreveille.node=[not shown]",
	} {
		if got := string(Redact([]byte(in))); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add(sample().Encode())
	f.Add(Record{}.Encode())
	f.Add(make([]byte, headerSize))
	f.Fuzz(func(t *testing.T, b []byte) {
		r, n, err := Parse(b)
		if err != nil {
			return
		}
		if n > len(b) || n > MaxRecord {
			t.Fatalf("%d bytes long", n)
		}
		if again, _, err := Parse(r.Encode()); err != nil || !bytes.Equal(again.Trace, r.Trace[:min(len(r.Trace), maxTrace)]) {
			t.Fatalf("does not survive: %v", err)
		}
	})
}

func FuzzParseEntry(f *testing.F) {
	f.Add(Entry{BootID: "b", Clean: true, Reason: "reboot: asked"}.Encode())
	f.Add(make([]byte, entrySize))
	f.Fuzz(func(t *testing.T, b []byte) {
		e, err := ParseEntry(b)
		if err != nil {
			return
		}
		if again, err := ParseEntry(e.Encode()); err != nil || again.Clean != e.Clean {
			t.Fatalf("%v does not survive: %v, %v", e, again, err)
		}
	})
}
