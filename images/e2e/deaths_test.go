//go:build e2e

package e2e

import (
	"context"
	"regexp"
	"strings"
	"testing"

	"reveille/boot/cluster/operator"
	"reveille/images/bench"
	"reveille/images/rack"
)

// death is a way for the agent to die.
type death struct {
	name    string
	fault   string // words of the kernel command line
	reason  string // in the summary
	trace   string // in the trace; empty: it leaves none
	frame   string // the top frame of the summary; empty: whatever it is
	written int64  // bytes that it writes at least
	slow    bool   // to die takes longer than a console may take to say so
}

func at(point, fault string) string { return "reveille.fault=" + fault + "@" + point }

// commonDeaths are those that `make test` runs, otherDeaths those that `make
// soak` adds. Most strike in the middle of the network stage.
var commonDeaths = []death{
	{name: "string panic", fault: at("network-half", "agent-panic"),
		reason: `panic: fault: agent-panic`, trace: `reveille/boot\.\(\*Node\)\.fault`, frame: "reveille/boot."},
	{name: "concurrent map", fault: at("network-half", "agent-maprace"),
		reason: `fatal error: concurrent map writes`, trace: `reveille/boot\.raceOnMap`, frame: "reveille/boot.raceOnMap"},
	{name: "SIGSEGV", fault: at("network-half", "agent-segv"),
		reason: `SIGSEGV: segmentation violation`, trace: `goroutine `},
	{name: "SIGKILL", fault: at("network-half", "agent-kill"),
		reason: `signal 9 \(killed\)`},
	{name: "hang, 2500 goroutines", fault: at("network-half", "agent-deadlock"),
		reason: `hung: no progress for 30s`, trace: `SIGQUIT: quit`, written: 1 << 20, slow: true},
}

// serial is the serial lines of a machine: one that a test says is live shows
// a crash whole and at once.
type serial struct {
	name  string
	ports []bench.Pace
	live  []int
}

var (
	fastAndSlow = serial{"unlimited and 960 B/s", []bench.Pace{bench.Unlimited(), bench.Limited(960)}, []int{0, 1}}
	deadAndFast = serial{"dead and unlimited", []bench.Pace{bench.StopsAfter(1), bench.Unlimited()}, []int{1}}
	fastAlone   = serial{"unlimited alone", []bench.Pace{bench.Unlimited()}, []int{0}}
	slowAlone   = serial{"960 B/s alone", []bench.Pace{bench.Limited(960)}, []int{0}}
)

// TestAgentDeaths kills the agent: see dies.
func TestAgentDeaths(t *testing.T) {
	for i, d := range commonDeaths {
		s := []serial{fastAndSlow, deadAndFast}[i%2]
		t.Run(d.name+", "+s.name, func(t *testing.T) { d.dies(t, s) })
	}
}

// dies boots a machine whose agent dies once. The crash must be whole, soon and
// in one piece on every live console, the record at the cluster must be the same
// byte for byte, and the node must be a member again.
func (d death) dies(t *testing.T, s serial) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{Name: "n1", TPM: true, Serial: s.ports, Append: d.fault + fastLines(s)})
	boot(t, ctx, n, "")
	record := awaitBundle(t, ctx, r, 1)
	// A member whose init was too busy to be asked for its crashes tells why with
	// the next heartbeat.
	v, err := r.WaitFor(ctx, n.Name, func(v rack.View) bool { return v.State == "joined" && v.LastCrash != "" })
	if err != nil {
		t.Fatal(err)
	}
	if v.AgentCrashes != 1 || v.LastCrash != record.Reason {
		t.Errorf("the controller knows of %d crashes, last %q, want 1, %q", v.AgentCrashes, v.LastCrash, record.Reason)
	}
	d.holds(t, record)
	clock := clockOf(n.Port(s.live[0]).Chunks())
	for _, port := range s.live {
		d.shown(t, ctx, n, port, record, clock)
	}
}

// fastLines sets the speed of all lines: without one the kernel takes 9600 baud,
// which init keeps to.
func fastLines(s serial) (words string) {
	for _, name := range []string{"ttyS0", "ttyS1"}[:len(s.ports)] {
		words += " console=" + name + ",115200"
	}
	return words
}

// holds wants a record that tells of this death.
func (d death) holds(t *testing.T, c operator.CrashRecord) {
	t.Helper()
	if c.Kind != "agent" || c.Incarnation != 1 || len(c.Summary) < 3 {
		t.Fatalf("the record is of another death: %+v", c.Bundle)
	}
	matches(t, "the reason", d.reason, c.Reason)
	matches(t, "the trace", d.trace, c.Trace)
	if (d.trace == "") != (c.Trace == "") || c.WrittenBytes < d.written {
		t.Errorf("a trace of %d bytes, %d written", len(c.Trace), c.WrittenBytes)
	}
	if !strings.HasPrefix(c.Frame, d.frame) {
		t.Errorf("the top frame is %q, want %q", c.Frame, d.frame)
	}
	if strings.Contains(d.fault, "agent-kill") {
		if got := strings.Count(c.Log, "last word "); got != 100 {
			t.Errorf("%d of the 100 records before the kill are in the log", got)
		}
	}
}

func matches(t *testing.T, what, pattern, text string) {
	t.Helper()
	if !regexp.MustCompile(pattern).MatchString(text) {
		t.Errorf("%s lacks %q:\n%.3000s", what, pattern, text)
	}
}

// shown wants the record on a console.
func (d death) shown(t *testing.T, ctx context.Context, n *rack.Node, port int, record operator.CrashRecord, clock guestClock) {
	t.Helper()
	if d.trace != "" {
		see(t, ctx, n, port, traceEnd)
	} else {
		see(t, ctx, n, port, regexp.QuoteMeta(record.Summary[len(record.Summary)-1]))
	}
	chunks := n.Port(port).Chunks()
	whole, problem := findCrash(textOf(chunks), record.Summary)
	if problem != "" {
		t.Fatalf("ttyS%d: %s; the record:\n%s\n%.2000s", port, problem, strings.Join(record.Summary, "\n"), record.Trace)
	}
	if problem := whole.differs(record.Trace); problem != "" {
		t.Errorf("ttyS%d: %s", port, problem)
	}
	shownAt := clock.uptime(chunks, whole.summaryEnd)
	dead, struck := shownAt-record.UptimeSeconds, -1.0
	if at, known := struckAt(record.Log); known {
		struck = shownAt - at
	}
	t.Logf("ttyS%d: the summary was whole %.2fs after the agent's end, %.2fs after the fault; %d bytes of trace shown",
		port, dead, struck, len(whole.trace))
	if held := clock.uptime(chunks, whole.end) - shownAt; held > holdsFor.Seconds() {
		t.Errorf("ttyS%d: the trace held it for %.0fs", port, held)
	}
	if dead > soon.Seconds() || !d.slow && struck > soon.Seconds() {
		t.Errorf("ttyS%d: that is too late", port)
	}
}
