//go:build e2e

package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"reveille/images/bench"
	"reveille/images/rack"
)

// death is a way for the agent to die: the fault, and what consoles must show.
type death struct{ fault, reason, trace string }

// TestAgentDeaths kills the agent in the middle of the network stage. Why must
// stand on both consoles in one piece, the agent must come back, and the node
// must join.
func TestAgentDeaths(t *testing.T) {
	for _, d := range []death{
		{"agent-panic", `agent crashed: panic: fault: agent-panic`, `reveille/boot\.\(\*Node\)\.fault`},
		{"agent-maprace", `agent crashed: fatal error: concurrent map writes`, `reveille/boot\.raceOnMap`},
		{"agent-segv", `agent crashed: SIGSEGV`, `goroutine `},
		{"agent-kill", `agent crashed: signal 9 \(killed\)`, ``},
		{"agent-deadlock", `agent crashed: hung: no progress for 30s`, `SIGQUIT: quit`},
	} {
		t.Run(d.fault, d.test)
	}
}

func (d death) test(t *testing.T) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{
		Name: "n1", TPM: true, Append: "reveille.fault=" + d.fault + "@network-half",
		Serial: []bench.Pace{bench.Unlimited(), bench.Unlimited()},
	})
	v := boot(t, ctx, n, "")
	if v.AgentCrashes != 1 || v.LastCrash == "" {
		t.Errorf("the controller knows of %d crashes, last %q", v.AgentCrashes, v.LastCrash)
	}
	for port := range 2 {
		see(t, ctx, n, port, d.reason)
		if d.trace == "" {
			continue
		}
		see(t, ctx, n, port, d.trace)
		contiguous(t, string(n.Port(port).Bytes()))
	}
}

// TestInitPanics has init itself die. Its warden must say why on both consoles
// and on the display, restart the machine, and leave a record that the next boot takes to the
// cluster.
func TestInitPanics(t *testing.T) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{
		Name: "n1", TPM: true, Display: true, Append: "reveille.fault=init-panic@join",
		Serial: []bench.Pace{bench.Unlimited(), bench.Unlimited()},
	})
	if err := n.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	awaitScreen(t, ctx, n, "init is dead", "init crashed: panic: fault: init-panic", "pid1/faults.go")
	v, err := r.WaitFor(ctx, "n1", rack.Joined(""))
	if err != nil {
		t.Fatal(err)
	}
	if v.AgentCrashes != 0 {
		t.Errorf("%d crashes of the agent", v.AgentCrashes)
	}
	if n.Reboots() == 0 { // one restart was seen to be counted three or four times
		t.Error("the machine was not reset")
	}
	for port := range 2 {
		see(t, ctx, n, port, `init crashed: panic: fault: init-panic`)
		see(t, ctx, n, port, `stage join`)
		see(t, ctx, n, port, `pid1/faults\.go`)
		see(t, ctx, n, port, `warden        C init is dead; rebooting`)
		contiguous(t, string(n.Port(port).Bytes()))
	}
	see(t, ctx, n, 0, `previous boot [0-9a-f]+: init crash`)
	if b := awaitBundle(t, ctx, r, 1); b.Kind != "init" || b.BootID == v.BootID || !strings.Contains(b.Trace, "pid1/faults.go") {
		t.Errorf("the bundle is of something else: %+v", b)
	}
}

var (
	crashLine = regexp.MustCompile(`^\[ *[0-9.]+\] (crash|warden) +C `)
	newLine   = regexp.MustCompile(`^\[ *[0-9.]+\] \S+ +[DISWEC] `)
	// What only a Go trace has: a goroutine's head, a place, who made it.
	traceLine = regexp.MustCompile(`^(goroutine \d+ |\t\S+\.(go|s):\d+|created by )`)
)

// contiguous wants a crash on a console in one piece.
func contiguous(t *testing.T, text string) {
	t.Helper()
	if problem := inPieces(text); problem != "" {
		t.Errorf("%s:\n%s", problem, text)
	}
}

// inPieces says how a console's text breaks a crash up, empty if it does not.
// The trace is printed as it was written, without a time: so none of its lines
// may follow a line of anybody else.
func inPieces(text string) string {
	runs, inside := 0, false
	for line := range strings.SplitSeq(text, "\n") {
		line = strings.TrimRight(line, "\r")
		switch {
		case crashLine.MatchString(line):
			if !inside {
				runs++
			}
			inside = true
		case newLine.MatchString(line):
			inside = false
		case !inside && traceLine.MatchString(line):
			return "a line of the trace stands apart: " + line
		}
	}
	if runs != 1 {
		return fmt.Sprintf("the crash stands in %d pieces", runs)
	}
	return ""
}

// TestInPieces holds the check itself: it must see what it is there for.
func TestInPieces(t *testing.T) {
	const before, summary = "[    1.000] mounts        S start\r\n", "[    2.000] crash         C agent crashed: panic: x\r\n"
	const first, second = "goroutine 1 [running]:\r\nmain.f()\r\n\t/a/b.go:1 +0x1\r\n", "goroutine 2 [select]:\r\nmain.g()\r\n\t/a/c.go:2\r\n"
	const foreign = "[    2.001] netcfg        I bond0 up\r\n"
	for _, c := range []struct {
		name, text string
		whole      bool
	}{
		{"whole", before + summary + first + second + foreign, true},
		{"foreign line in the trace", before + summary + first + foreign + second, false},
		{"foreign line before the trace", before + summary + foreign + first + second, false},
		{"twice", summary + first + foreign + summary + first, false},
		{"none", before + foreign, false},
	} {
		if problem := inPieces(c.text); (problem == "") != c.whole {
			t.Errorf("%s: %q", c.name, problem)
		}
	}
}
