package console

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

var testFacts = CrashFacts{Process: "agent", Build: "1a2b3c4d", Incarnation: 3,
	Uptime: 12345 * time.Millisecond, Ran: 2 * time.Second, Stage: "network", WaitStatus: "exit status 2"}

const panicText = `panic: runtime error: invalid memory address or nil pointer dereference
[signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x48f0b6]

goroutine 1 [running]:
runtime.gopanic(0x1)
	/go/src/runtime/panic.go:88 +0x1
reveille/netcfg.(*link).apply(0x0, {0xc000012345, 0x5})
	/src/netcfg/link_linux.go:123 +0x1d
main.main()
	/src/init/main.go:20 +0x25
exit status 2
`

// textOf sends a text through a collector in fragments, as Go writes it.
func textOf(s string) CrashText {
	c := NewCrashCollector(DefaultCrashHead, DefaultCrashTail, nil)
	for len(s) > 0 {
		n := min(7, len(s))
		c.Write([]byte(s[:n]))
		s = s[n:]
	}
	return c.Text()
}

func TestSummarise(t *testing.T) {
	tests := []struct{ name, text, reason, frame string }{
		{"nil dereference", panicText,
			"panic: runtime error: invalid memory address or nil pointer dereference [signal SIGSEGV: segmentation violation code=0x1 addr=0x0 pc=0x48f0b6]",
			"reveille/netcfg.(*link).apply (netcfg/link_linux.go:123)"},
		{"map race", "fatal error: concurrent map writes\n\ngoroutine 18 [running]:\ninternal/runtime/maps.fatal({0x1, 0x2})\n\t/go/panic.go:1 +0x5\nmain.main.func1()\n\t/src/main.go:9 +0x33\ncreated by main.main in goroutine 1\n\t/src/main.go:8 +0x1\n",
			"fatal error: concurrent map writes", "main.main.func1 (src/main.go:9)"},
		{"stack overflow", "runtime: goroutine stack exceeds 67108864-byte limit\nruntime: sp=0xc0 stack=[0xc0, 0xd0]\nfatal error: stack overflow\n\nruntime stack:\nruntime.throw({0x1, 0x2})\n\t/go/panic.go:1 +0x5\n\ngoroutine 1 [running]:\nmain.f(0x1)\n\t/src/main.go:5 +0x1\n",
			"fatal error: stack overflow", "main.f (src/main.go:5)"},
		{"quit dump", "SIGQUIT: quit\nPC=0x47 m=0 sigcode=0\n\ngoroutine 0 [idle]:\nruntime.futex(0x1)\n\t/go/sys.s:5 +0x1\n\ngoroutine 1 [select]:\nmain.wait()\n\t/src/main.go:7 +0x1\n",
			"SIGQUIT: quit", "main.wait (src/main.go:7)"},
		{"string panic after noise", "some library says hello\npanic: boom [recovered]\n\tpanic: worse\n\ngoroutine 5 [running]:\nmain.g(...)\n\t/src/g.go:3\n",
			"panic: boom [recovered]", "main.g (src/g.go:3)"},
		{"killed", "", "exit status 2", ""},
		{"os.Exit after a word", "cannot go on\n", "exit status 2", ""},
		{"hostile", "panic: \x1b[2J\xff\nSIG\ngoroutine \n)\n\t\n", "panic: \\x1b[2J\\xff", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			c := Summarise(testFacts, textOf(tt.text))
			if c.Reason != tt.reason {
				t.Errorf("reason %q, want %q", c.Reason, tt.reason)
			}
			if c.Frame != tt.frame {
				t.Errorf("frame %q, want %q", c.Frame, tt.frame)
			}
			if c.Trace != tt.text {
				t.Errorf("trace %q, want %q", c.Trace, tt.text)
			}
			checkSummary(t, c)
		})
	}
}

func checkSummary(t *testing.T, c CrashReport) {
	t.Helper()
	all := strings.Join(c.Summary, "\n")
	if len(all) > 2<<10 {
		t.Errorf("summary of %d bytes", len(all))
	}
	for _, want := range []string{"agent crashed: ", "build 1a2b3c4d, incarnation 3, stage network", "uptime 12.345s"} {
		if !strings.Contains(all, want) {
			t.Errorf("no %q in\n%s", want, all)
		}
	}
	for _, line := range c.Summary {
		if len(line) > lineWidth || !isClean(line) {
			t.Errorf("line of %d bytes: %q", len(line), line)
		}
	}
}

func TestCollectorFindsTheHeadlineBehindMegabytes(t *testing.T) {
	var plain int
	c := NewCrashCollector(8<<10, 2<<10, func(string) { plain++ })
	for i := range 1000 {
		fmt.Fprintf(c, "library noise %d\n", i)
	}
	c.Write([]byte("panic: an early one that was survived\n" + strings.Repeat("more\n", 4000)))
	c.Write([]byte("pan"))
	c.Write([]byte("ic: the end\n\ngoroutine 1 [running]:\nmain.main()\n\t/src/main.go:1 +0x1\n"))
	c.Write([]byte(strings.Repeat("x\n", 1<<20)))
	c.Write([]byte("last words\n"))
	text := c.Text()
	if plain != 1000 {
		t.Errorf("%d plain lines, want 1000", plain)
	}
	if len(text.Head) > 8<<10 || len(text.Tail) > 2<<10 {
		t.Errorf("kept %d + %d bytes", len(text.Head), len(text.Tail))
	}
	r := Summarise(testFacts, text)
	if r.Reason != "panic: the end" || !strings.HasSuffix(r.Trace, "last words\n") || !strings.Contains(r.Trace, "-- 2.1 MB of trace not kept --\n") {
		t.Errorf("reason %q, trace ends %q", r.Reason, r.Trace[len(r.Trace)-200:])
	}
	if len(c.recent) > 2*2<<10 {
		t.Errorf("collector holds %d bytes of tail", len(c.recent))
	}
}

// However the text is cut into writes, the report is the same, bounded and
// harmless.
func FuzzCrash(f *testing.F) {
	f.Add([]byte(panicText), 5)
	f.Add([]byte("SIGQUIT: quit\ngoroutine 1 [running]:\n(x)\n\t/a.go:1 +0x1\ncreated by "), 9)
	f.Fuzz(func(t *testing.T, b []byte, at int) {
		at = max(at, 0) % (len(b) + 1)
		one, two := NewCrashCollector(100, 50, nil), NewCrashCollector(100, 50, nil)
		one.Write(b)
		two.Write(b[:at])
		two.Write(b[at:])
		c := Summarise(testFacts, one.Text())
		if d := Summarise(testFacts, two.Text()); d.Reason != c.Reason || d.Trace != c.Trace || d.Written != c.Written {
			t.Fatalf("depends on the writes:\n%+v\n%+v", c, d)
		}
		checkSummary(t, c)
		if len(c.Trace) > 100+50+60 {
			t.Fatalf("%d bytes kept", len(c.Trace))
		}
	})
}

// TestFatal: a line of the runtime's is no death, a panic is.
func TestFatal(t *testing.T) {
	c := NewCrashCollector(100, 100, nil)
	for _, step := range []struct {
		text string
		want bool
	}{
		{"hello\nruntime: a warning\n", false}, {"pan", false}, {"ic: x\n", true}, {"goroutine 1 [running]:\n", true},
	} {
		c.Write([]byte(step.text))
		if got := c.Fatal(); got != step.want {
			t.Errorf("after %q: %t", step.text, got)
		}
	}
}
