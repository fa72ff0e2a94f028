//go:build e2e

package e2e

import (
	"regexp"
	"strings"
	"testing"

	"reveille/images/bench"
	"reveille/images/rack"
)

// TestAgentDeaths kills the agent in the middle of the network stage. Why must
// stand on both consoles in one piece, the agent must come back, and the node
// must join.
func TestAgentDeaths(t *testing.T) {
	for _, c := range []struct{ fault, reason, trace string }{
		{"agent-panic", `agent crashed: panic: fault: agent-panic`, `reveille/boot\.\(\*Node\)\.fault`},
		{"agent-maprace", `agent crashed: fatal error: concurrent map writes`, `reveille/boot\.raceOnMap`},
		{"agent-segv", `agent crashed: SIGSEGV`, `goroutine `},
		{"agent-kill", `agent crashed: signal 9 \(killed\)`, ``},
	} {
		t.Run(c.fault, func(t *testing.T) {
			r, ctx := newRack(t)
			start(t, ctx, r)
			n := add(t, ctx, r, rack.Machine{
				Name: "n1", TPM: true, Append: "reveille.fault=" + c.fault + "@network-half",
				Serial: []bench.Pace{bench.Unlimited(), bench.Unlimited()},
			})
			v := boot(t, ctx, n, "")
			if v.AgentCrashes != 1 || v.LastCrash == "" {
				t.Errorf("the controller knows of %d crashes, last %q", v.AgentCrashes, v.LastCrash)
			}
			for port := range 2 {
				see(t, ctx, n, port, c.reason)
				if c.trace == "" {
					continue
				}
				see(t, ctx, n, port, c.trace)
				contiguous(t, string(n.Port(port).Bytes()))
			}
		})
	}
}

// TestAgentDiesAMember kills the agent when the TPM opens the config no more in
// this boot: the next agent must have it from init, find the network as it
// should be, and be the same member.
func TestAgentDiesAMember(t *testing.T) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{Name: "n1", TPM: true, Append: "reveille.fault=agent-panic@steady"})
	if err := n.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	v, err := r.WaitFor(ctx, "n1", func(v rack.View) bool {
		return rack.Joined("")(v) && v.AgentCrashes == 1
	})
	if err != nil {
		t.Fatal(err)
	}
	if v.Boots != 1 || !v.Sealed || !strings.Contains(v.LastCrash, "fault: agent-panic") {
		t.Errorf("boots %d, sealed %t, last crash %q", v.Boots, v.Sealed, v.LastCrash)
	}
	log, err := n.Logs(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Count(log, "create bond bond0"); got != 1 {
		t.Errorf("the bond was created %d times", got)
	}
}

var (
	crashLine = regexp.MustCompile(`^\[ *[0-9.]+\] crash         C `)
	newLine   = regexp.MustCompile(`^\[ *[0-9.]+\] \S+ +[DISWEC] `)
)

// contiguous wants the crash's lines on a console in one run: the first line
// of a record starts with its time, and what belongs to it is indented.
func contiguous(t *testing.T, text string) {
	t.Helper()
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
		}
	}
	if runs != 1 {
		t.Errorf("the crash stands in %d pieces on the console:\n%s", runs, text)
	}
}
