package console

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/tools/txtar"
)

var update = flag.Bool("update", false, "rewrite the golden files")

var stageNames = []string{"mounts", "modules", "parameters", "network", "clock", "config", "join", "services", "steady"}

// stagesDone has the first n stages done, the next in a state.
func stagesDone(n int, state string, age time.Duration) (out []StageView) {
	for i, name := range stageNames {
		s := StageView{Name: name}
		switch {
		case i < n:
			s.State, s.For = "done", time.Duration(137*(i+1))*time.Millisecond
		case i == n:
			s.State, s.For = state, age
		}
		out = append(out, s)
	}
	return out
}

func views() map[string]View {
	at := time.Date(2011, 1, 1, 0, 3, 59, 0, time.UTC)
	first := View{Build: "394c171ab12d", Now: at, Uptime: 900 * time.Millisecond, Waiting: "the agent has not reported yet", Facts: []Fact{{"consoles", "ttyS0"}}}
	stuck := View{
		Name: "n1", Build: "394c171ab12d-dirty", Now: at, Uptime: 134 * time.Second,
		Stages: stagesDone(5, "waiting", 125*time.Second),
		Facts: []Fact{
			{"addresses", "10.0.2.15 fd00:5::15"},
			{"cluster", "enrolled in 8c6f2c1e, not joined in this boot"},
			{"last boot", "agent crash: panic: fault: agent-panic; power lost, or reset, before the cluster heard of it"},
			{"consoles", "ttyS0, ttyS1 (stalled)"},
			{"crashes", "1 of the agent in this boot"},
		},
		Waiting: "waiting 2m5s, attempt 12: 3 of 3 endpoints failed: [fd00::10]:7443 connect: no route to host, 10.0.2.2:7443 connect: connection refused; next try in 8s",
		Crash: []string{
			"agent crashed: panic: fault: agent-panic at network-half",
			"    at reveille/boot.(*Node).fault (boot/faults.go:41)",
			"    build 394c171ab12d, incarnation 1, stage network",
			"    uptime 5.210s, ran 1.200s, exit status 2, wrote 2411 bytes",
		},
		Recent: []Recent{
			{Record: Record{Uptime: 2 * time.Second, Origin: "kernel", Level: Warn, Text: "clocksource: timekeeping watchdog marks tsc as unstable"}, Times: 1},
			{Record: Record{Uptime: 5230 * time.Millisecond, Origin: "init", Level: Error, Text: "agent 1 ended: exit status 2; starting it again in 500ms"}, Times: 1},
			{Record: Record{Uptime: 130 * time.Second, Origin: "config", Level: Warn, Text: "waiting 2m0s, attempt 11: 3 of 3 endpoints failed: [fd00::10]:7443 connect: no route to host, 10.0.2.2:7443 connect: connection refused; next try in 12s"}, Times: 12},
		},
	}
	running := View{Name: "n1", Build: "v1.0", Now: at, Uptime: 12 * time.Second, Stages: stagesDone(3, "running", 700*time.Millisecond)}
	member := View{
		Name: "rack7-node-with-a-long-name-14", Build: "v1.0", Now: at.AddDate(15, 0, 0), Uptime: 49*time.Hour + 30*time.Minute,
		Stages: stagesDone(9, "", 0),
		Facts:  []Fact{{"addresses", "10.0.2.15"}, {"cluster", "member of 8c6f2c1e"}},
	}
	hostile := View{
		Name: "n\x1b[31m\u00e9\n", Build: "\x00", Now: at, Stages: stagesDone(2, "held", time.Hour),
		Facts:   []Fact{{"\u2028", strings.Repeat("x", 500)}},
		Waiting: "\u202eline one\nline two\ttab \u2026", Crash: []string{"\x9b2J", strings.Repeat("goroutine ", 60)},
		Ending: "reboot: \u00fcber",
	}
	refused := View{
		Name: "n1", Build: "v1.0", Now: at, Uptime: 12 * time.Second, Stages: stagesDone(5, "held", 70*time.Second),
		Waiting: "enrol: refused by 10.0.2.2:7443: the cluster does not know this ticket; create a new one: reveille ticket create",
	}
	dead := View{
		Name: "n1", Build: "394c171ab12d", Now: at, Uptime: time.Minute, Ending: "init is dead; rebooting",
		Crash: append([]string{"init crashed: panic: x", "    at main.f (a/b.go:1)", "panic: x", ""}, strings.Split(strings.Repeat("goroutine 1 [running]:\nmain.f()\n\t/a/b.go:1 +0x1\n", 12), "\n")...),
	}
	return map[string]View{"first": first, "stuck": stuck, "running": running, "member": member, "refused": refused, "hostile": hostile, "dead": dead}
}

// drawn is a screen as a golden file holds it: each row with its style.
func drawn(lines []Line) string {
	var b strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&b, "%c|%s|\n", " TWA"[l.Style], l.Text)
	}
	return b.String()
}

// TestRender compares each "VIEW COLSxROWS" of the golden file.
func TestRender(t *testing.T) {
	const golden = "testdata/screens.txtar"
	ar, err := txtar.ParseFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	for i := range ar.Files {
		f := &ar.Files[i]
		var name string
		var cols, rows int
		if _, err := fmt.Sscanf(f.Name, "%s %dx%d", &name, &cols, &rows); err != nil {
			t.Fatal(f.Name, err)
		}
		v, ok := views()[name]
		if !ok {
			t.Fatalf("no view %q", name)
		}
		got := drawn(v.Render(cols, rows))
		if *update {
			f.Data = []byte(got)
		}
		if diff := cmp.Diff(string(f.Data), got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", f.Name, diff)
		}
	}
	if *update {
		if err := os.WriteFile(golden, txtar.Format(ar), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRenderAnySize wants every screen filled exactly, with plain ASCII.
func TestRenderAnySize(t *testing.T) {
	for name, v := range views() {
		for cols := 0; cols < 140; cols += 1 + cols/20 {
			for rows := 0; rows < 60; rows += 1 + rows/20 {
				lines := v.Render(cols, rows)
				if want := rows * min(cols, 1); len(lines) != want {
					t.Fatalf("%s %dx%d: %d rows", name, cols, rows, len(lines))
				}
				for _, l := range lines {
					if len(l.Text) != cols || strings.ContainsFunc(l.Text, func(r rune) bool { return r < ' ' || r > '~' }) {
						t.Fatalf("%s %dx%d: %q", name, cols, rows, l.Text)
					}
				}
			}
		}
	}
}

// TestWaitingComesFirst wants what is awaited on every screen that has three
// rows.
func TestWaitingComesFirst(t *testing.T) {
	for rows := 3; rows < 60; rows++ {
		if got := drawn(views()["stuck"].Render(80, rows)); !strings.Contains(got, "W| waiting: ") {
			t.Errorf("%d rows:\n%s", rows, got)
		}
	}
}

func FuzzRender(f *testing.F) {
	f.Add("n1", "10.0.0.1 connect: refused", "panic: x", 80, 25)
	f.Add("\x1b[2J", "\u202e\n\t", "\xff", 13, 3)
	f.Fuzz(func(t *testing.T, name, text, crash string, cols, rows int) {
		cols, rows = cols%300, rows%300
		v := View{Name: name, Build: name, Stages: []StageView{{name, text, time.Hour}}, Facts: []Fact{{name, text}}, Waiting: text, Crash: []string{crash}}
		for _, l := range v.Render(cols, rows) {
			if len(l.Text) != cols {
				t.Fatalf("%d columns: %q", cols, l.Text)
			}
			for i := range len(l.Text) {
				if l.Text[i] < ' ' || l.Text[i] > '~' {
					t.Fatalf("not for a screen: %q", l.Text)
				}
			}
		}
	})
}

func TestRoughly(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.0s", 940 * time.Millisecond: "0.9s", 9940 * time.Millisecond: "9.9s", 10 * time.Second: "10s", 59*time.Second + 999*time.Millisecond: "59s",
		time.Minute: "1m00s", 134 * time.Second: "2m10s", time.Hour: "1h00m", 25*time.Hour + 61*time.Minute: "1d02h",
	} {
		if got := roughly(d); got != want {
			t.Errorf("%v: %s, want %s", d, got, want)
		}
	}
}

// TestNewest keeps the last few, and of what repeats with other numbers only
// the last.
func TestNewest(t *testing.T) {
	l := NewLog(DefaultLimits(), func() time.Duration { return time.Second })
	n := l.Newest(Warn, 3)
	for i, text := range []string{"a", "waiting 10s, attempt 1: no", "b", "waiting 20s, attempt 2: no", "eth0: down", "eth1: down"} {
		l.Append("x", Warn, text)
		l.Append("x", Info, fmt.Sprint("not this ", i))
		l.Append(CrashOrigin, Crash, "nor this")
	}
	l.Append("y", Error, strings.Repeat("long ", 1000))
	var got []string
	for _, r := range n.Records() {
		got = append(got, fmt.Sprintf("%s %s %d", r.Origin, r.Text[:min(len(r.Text), 20)], r.Times))
	}
	want := []string{"x eth0: down 1", "x eth1: down 1", "y long long long long  1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestNewestCountsRepeats(t *testing.T) {
	l := NewLog(DefaultLimits(), func() time.Duration { return time.Second })
	n := l.Newest(Warn, 3)
	for _, text := range []string{"waiting 10s, attempt 1: 10.0.0.1 no", "other", "waiting 1m20s, attempt 22: 10.0.0.1 no", "waiting 1m20s, attempt 22: 10.0.0.2 no"} {
		l.Append("join", Warn, text)
	}
	r := n.Records()
	if len(r) != 3 || r[1].Times != 2 || !strings.HasSuffix(r[1].line(), "10.0.0.1 no x2") {
		t.Errorf("%+v", r)
	}
}
