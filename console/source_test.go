package console

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"
)

func split(chunks ...string) []string {
	var got []string
	s := NewSplitter(func(line string) { got = append(got, line) })
	for _, c := range chunks {
		s.Write([]byte(c))
	}
	s.Flush()
	return got
}

func TestSplitter(t *testing.T) {
	long := strings.Repeat("a", maxStreamLine)
	tests := []struct {
		name   string
		chunks []string
		want   []string
	}{
		{"lines", []string{"one\ntwo\n"}, []string{"one", "two"}},
		{"fragments", []string{"o", "ne\nt", "wo"}, []string{"one", "two"}},
		{"crlf and empty", []string{"one\r\n\r\n\ntwo\r\n"}, []string{"one", "two"}},
		{"progress", []string{"10%\r20%\r100%\n"}, []string{"100%"}},
		{"long", []string{long + "bc\nd\n"}, []string{long[:maxStreamLine-4], "... aaaabc", "d"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := split(tt.chunks...); !slices.Equal(got, tt.want) {
				t.Errorf("got %.200q, want %.200q", got, tt.want)
			}
		})
	}
}

// However a stream is cut into writes, the lines are the same, bounded, and
// nothing of a stream without carriage returns is lost.
func FuzzSplitter(f *testing.F) {
	f.Add([]byte("one\ntwo\r\nthree"), 2)
	f.Add([]byte(strings.Repeat("\xc3\xa4", 3000)), 4095)
	f.Fuzz(func(t *testing.T, b []byte, at int) {
		whole := split(string(b))
		if at = max(at, 0) % (len(b) + 1); !slices.Equal(whole, split(string(b[:at]), string(b[at:]))) {
			t.Fatal("lines depend on the writes")
		}
		n := 0
		for _, line := range whole {
			if len(line) > maxStreamLine+len(contMark) || len(line) == 0 {
				t.Fatalf("line of %d bytes", len(line))
			}
			n += len(strings.TrimPrefix(line, contMark))
		}
		if want := len(bytes.ReplaceAll(b, []byte("\n"), nil)); !bytes.ContainsAny(b, "\r") && n < want-len(contMark)*strings.Count(string(b), contMark) {
			t.Fatalf("%d of %d bytes kept", n, want)
		}
	})
}

func TestCopyShowsAPromptAndReadsPriorities(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	l := testLog(DefaultLimits())
	f := l.Follow(1, Filter{})
	defer f.Close()
	done := make(chan error, 1)
	go func() { done <- Copy(l, r, "svc/db", Info) }()
	fmt.Fprint(w, "<3>disk is gone\nplain\nContinue? ")
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var got []string
	for len(got) < 3 {
		recs, _, err := f.Next(ctx, 10)
		if err != nil {
			t.Fatalf("after %q: %v", got, err)
		}
		for _, r := range recs {
			got = append(got, string(r.Level.Letter())+" "+r.Text)
		}
	}
	if want := []string{"E disk is gone", "I plain", "I Continue? "}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	w.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain\tok\n":          "plain\tok",
		"\x1b[2Jx":             `\x1b[2Jx`,
		"bad \xff utf8 \u00e4": `bad \xff utf8 ä`,
		"c1 \u009b2J":          `c1 \xc2\x9b2J`,
		"a\r\nb":               "a\nb",
		"flip \u202etxt":       `flip \xe2\x80\xaetxt`,
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
	if got := ascii("40 \u00b5s \u2026 \u00e4"); got != "40 us ... ?" {
		t.Errorf("ascii: %q", got)
	}
}

func FuzzLayout(f *testing.F) {
	f.Add("text", "netcfg", uint8(1), uint64(1))
	f.Add(panicText, "crash", uint8(5), uint64(0))
	f.Fuzz(func(t *testing.T, text, origin string, level uint8, times uint64) {
		l := testLog(DefaultLimits())
		l.Append(origin, Level(level), text)
		recs, _, _ := l.Read(1, Filter{}, 1)
		if !utf8.ValidString(recs[0].Text) {
			t.Fatalf("invalid UTF-8 in the ring: %q", recs[0].Text)
		}
		lines := layout(recs[0], times, minTraceBudget)
		for _, line := range lines {
			limit := lineWidth
			if recs[0].Level == Crash {
				limit = maxTraceLine + 40
			}
			if len(line) > limit || !isClean(line) || strings.Contains(line, "\n") {
				t.Fatalf("console line of %d bytes: %q", len(line), line)
			}
		}
		if recs[0].Level != Crash && len(lines) > 2*excerptLines+1 {
			t.Fatalf("%d console lines for one record", len(lines))
		}
	})
}

type secret string

func (secret) String() string               { return "(secret)" }
func (secret) MarshalJSON() ([]byte, error) { return nil, errors.New("secret") }

func TestHandler(t *testing.T) {
	var packets []string
	log := slog.New(NewHandler(writerFunc(func(p []byte) (int, error) {
		e, err := DecodePacket(p)
		if err != nil {
			t.Fatal(err)
		}
		packets = append(packets, fmt.Sprintf("%s %c %s", e.Origin, e.Level.Letter(), e.Text))
		return len(p), nil
	}), "netcfg", slog.LevelInfo))
	many := make([]string, 10000)
	for i := range many {
		many[i] = fmt.Sprint("h", i)
	}
	log.Debug("hidden")
	log.Info("bond0 up", "ports", 2, "mode", "802.3ad slow")
	log.Log(t.Context(), LevelStage, "stage network", "took", 1500*time.Millisecond)
	log.With("err", errors.New("no route to host")).Warn("dial", "try", 3)
	log.WithGroup("lease").Error("lost", "addr", "10.0.0.1", slog.Group("by", "n", 1))
	log.Info("hosts", "all", many, "key", []byte("0123"), "pw", secret("hush"), "in", struct{ P secret }{"hush"}, "two", []secret{"hush"})
	want := []string{
		`netcfg I bond0 up ports=2 mode="802.3ad slow"`,
		`netcfg S stage network took=1.5s`,
		`netcfg W dial try=3: no route to host`,
		`netcfg E lost lease.addr=10.0.0.1 lease.by.n=1`,
		`netcfg I hosts all="10000: h0, h1, h2 and 9997 more" key="4 bytes" pw=(secret) in="struct { P console.secret }" two=(secret)`,
	}
	if !slices.Equal(packets, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(packets, "\n"), strings.Join(want, "\n"))
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

func TestHandlerOverASocketThatNobodyReads(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	near, far := os.NewFile(uintptr(fds[0]), "near"), os.NewFile(uintptr(fds[1]), "far")
	defer near.Close()
	defer far.Close()
	h := NewHandler(near, "join", slog.LevelInfo)
	log := slog.New(WithOrigin(h, "state"))
	for h.(*handler).out.lost < 3 {
		log.Info(strings.Repeat("x", 8000))
	}
	far.Read(make([]byte, MaxPacket))
	log.Info("heard again")
	buf := make([]byte, MaxPacket)
	for {
		n, err := far.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		if e, _ := DecodePacket(buf[:n]); strings.HasPrefix(e.Text, "heard again") {
			if e.Origin != "state" || !strings.Contains(e.Text, "(3 earlier lines were lost") {
				t.Errorf("got %+v", e)
			}
			return
		}
	}
}

// TestHandlerOutlastsABusyInit: one that stands still for a while, on a machine
// that gives it no time, costs no record.
func TestHandlerOutlastsABusyInit(t *testing.T) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	near, far := os.NewFile(uintptr(fds[0]), "near"), os.NewFile(uintptr(fds[1]), "far")
	defer near.Close()
	defer far.Close()
	const records = 100 // of 8 kB: the socket holds some twenty
	read := make(chan int)
	time.AfterFunc(sendWithin/4, func() {
		n, buf := 0, make([]byte, MaxPacket)
		for ; n < records; n++ {
			if _, err := far.Read(buf); err != nil {
				break
			}
		}
		read <- n
	})
	h := NewHandler(near, "join", slog.LevelInfo)
	for range records {
		slog.New(h).Info(strings.Repeat("x", 8000))
	}
	if lost := h.(*handler).out.lost; lost > 0 {
		t.Errorf("%d records were lost", lost)
	}
	far.SetReadDeadline(time.Now().Add(10 * time.Second))
	if n := <-read; n != records {
		t.Errorf("%d of %d records arrived", n, records)
	}
}

func FuzzDecodePacket(f *testing.F) {
	f.Add(EncodePacket("netcfg", Warn, "bond0 down"))
	f.Add([]byte{1, 255, 3, 'a'})
	f.Fuzz(func(t *testing.T, p []byte) {
		e, err := DecodePacket(p)
		if err != nil {
			return
		}
		if e.Level > Error || e.Origin == "" || len(e.Origin) > maxOrigin {
			t.Fatalf("entry %+v", e)
		}
		again, err := DecodePacket(EncodePacket(e.Origin, e.Level, e.Text))
		if err != nil || again != e {
			t.Fatalf("%+v came back as %+v: %v", e, again, err)
		}
	})
}

func TestEncodePacketIsBounded(t *testing.T) {
	p := EncodePacket("o", Info, strings.Repeat("ä", MaxPacket))
	e, err := DecodePacket(p)
	if err != nil || len(p) > MaxPacket || !utf8.ValidString(e.Text) || !strings.HasSuffix(e.Text, "(cut, was 65 kB)") {
		t.Errorf("%d bytes, %v, ends %q", len(p), err, e.Text[len(e.Text)-20:])
	}
}

// scriptedKmsg hands out one record or error per read, then ends.
type scriptedKmsg struct{ script []any }

func (s *scriptedKmsg) Read(p []byte) (int, error) {
	if len(s.script) == 0 {
		return 0, io.EOF
	}
	next := s.script[0]
	s.script = s.script[1:]
	if err, ok := next.(error); ok {
		return 0, &os.PathError{Op: "read", Path: "/dev/kmsg", Err: err}
	}
	return copy(p, next.(string)), nil
}

func TestReadKernel(t *testing.T) {
	l := testLog(DefaultLimits())
	err := ReadKernel(t.Context(), l, &scriptedKmsg{[]any{
		"6,10,1000000,-;Linux version 6.1\n",
		"4,11,1100000,-;old but a warning\n SUBSYSTEM=pci\n DEVICE=+pci:0000\n",
		"6,12,5000000,-;eth0: link up\n",
		unix.EPIPE,
		"3,20,6000000,-;disk error\\x0aon sda\n",
		"garbage",
		"30,21,6000000,-;written by a process\n",
		"7,22,7000000,-;detail\n",
	}}, Info, 2*time.Second)
	if !errors.Is(err, io.EOF) {
		t.Errorf("error %v", err)
	}
	var got strings.Builder
	recs, _, _ := l.Read(1, Filter{}, 100)
	for _, r := range recs {
		fmt.Fprintf(&got, "%v %s %c %s %v\n", r.Uptime, r.Origin, r.Level.Letter(), r.Text, r.RingOnly)
	}
	want := `1s kernel I Linux version 6.1 true
1.1s kernel W old but a warning false
5s kernel I eth0: link up false
1s kernel W 7 kernel messages were overwritten before they were read false
6s kernel E disk error
on sda false
6s kmsg I written by a process false
7s kernel D detail true
`
	if got.String() != want {
		t.Errorf("got\n%swant\n%s", got.String(), want)
	}
}

func TestKernelThreshold(t *testing.T) {
	for cmdline, want := range map[string]Level{
		"console=ttyS0":          Info,
		"quiet rdinit=/init":     Error,
		"quiet loglevel=1":       Error,
		"loglevel=3 quiet":       Error,
		"quiet loglevel=5":       Warn,
		"loglevel=7":             Info,
		"loglevel=8":             Debug,
		"quiet debug":            Debug,
		"loglevel=x loglevel=-9": Error,
	} {
		if got := KernelThreshold(cmdline); got != want {
			t.Errorf("%q: %v, want %v", cmdline, got, want)
		}
	}
}

func FuzzParseKmsg(f *testing.F) {
	f.Add("6,339,5140900,-;text\n KEY=value\n")
	f.Add("4294967295,18446744073709551615,9223372036854775807,c;")
	f.Fuzz(func(t *testing.T, s string) {
		r, err := parseKmsg(s)
		if err == nil && (r.at < 0 || r.level > Error) {
			t.Fatalf("%+v", r)
		}
		l := testLog(small)
		(&kernelLog{log: l}).take(s)
	})
}
