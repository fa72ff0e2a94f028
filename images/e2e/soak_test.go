//go:build e2e && soak

package e2e

import (
	"regexp"
	"strconv"
	"testing"

	"reveille/images/bench"
	"reveille/images/rack"
)

// otherDeaths are the ways to die that `make test` has no time for.
var otherDeaths = []death{
	{name: "error panic", fault: at("network-half", "agent-error"),
		reason: `panic: open /fault: input/output error`, trace: `goroutine `, frame: "reveille/boot."},
	{name: "panic in a goroutine", fault: at("network-half", "agent-goroutine"),
		reason: `panic: fault: agent-goroutine`, trace: `created by reveille/boot`, frame: "reveille/boot."},
	{name: "nil dereference", fault: at("network-half", "agent-nil"),
		reason: `panic: runtime error: invalid memory address`, trace: `goroutine `, frame: "reveille/boot."},
	{name: "stack overflow, 5000 goroutines", fault: at("network-half", "agent-stack"),
		reason: `fatal error: stack overflow|runtime: goroutine stack exceeds`, trace: `reveille/boot\.overflow`,
		frame: "reveille/boot.overflow", written: 1 << 20, slow: true},
	{name: "all goroutines asleep", fault: at("start", "agent-asleep"),
		reason: `fatal error: all goroutines are asleep - deadlock!`, trace: `goroutine 1 \[select \(no cases\)`},
	{name: "Go out of memory", fault: at("network-half", "agent-oom"),
		reason: `fatal error: .*memory`, trace: `goroutine `, slow: true},
	{name: "kernel out of memory", fault: at("network-half", "agent-oomkill"),
		reason: `signal 9 \(killed\): the kernel was out of memory`, slow: true},
	{name: "SIGILL", fault: at("network-half", "agent-sigill"),
		reason: `SIGILL: illegal instruction`, trace: `goroutine `},
	{name: "SIGBUS", fault: at("network-half", "agent-sigbus"),
		reason: `unexpected fault address|fatal error: fault`, trace: `goroutine `},
	{name: "os.Exit(2)", fault: at("network-half", "agent-exit"),
		reason: `exit status 2`},
	{name: "exec failure", fault: "REVEILLE_FAULT=agent-exec",
		reason: `start agent: exec /run/no-program: exec format error`},
	{name: "hang", fault: at("network-half", "agent-hang"),
		reason: `hung: no progress for 30s`, trace: `SIGQUIT: quit`, slow: true},
	{name: "before it begins", fault: at("start", "agent-panic"),
		reason: `panic: fault: agent-panic`, trace: `reveille/boot\.FaultAtStart`, frame: "reveille/boot."},
	{name: "before the first mount", fault: at("mounts", "agent-nil"),
		reason: `panic: runtime error: invalid memory address`, trace: `reveille/boot\.\(\*runner\)`, frame: "reveille/boot."},
}

// TestAllAgentDeaths is every way to die on every kind of serial line. Two kinds
// share a machine where neither can help the other: a console has a writer of
// its own. Three deaths, a short, a long and a silent one, are also seen with
// one line alone.
func TestAllAgentDeaths(t *testing.T) {
	for _, d := range append(commonDeaths, otherDeaths...) {
		lines := []serial{fastAndSlow, deadAndFast}
		switch d.name {
		case "string panic", "stack overflow, 5000 goroutines", "SIGKILL":
			lines = append(lines, fastAlone, slowAlone)
		}
		for _, s := range lines {
			t.Run(d.name+", "+s.name, func(t *testing.T) { d.dies(t, s) })
		}
	}
}

// TestInitStops has init stand still, which no process can see: the watchdog
// must restart the machine.
func TestInitStops(t *testing.T) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{Name: "n1", TPM: true, Append: "reveille.fault=init-stop@join"})
	boot(t, ctx, n, "")
	see(t, ctx, n, 0, `watchdog /dev/watchdog0 armed`)
	if n.Reboots() == 0 {
		t.Error("the machine was not reset")
	}
}

// diedAt is in the last line of a summary.
var diedAt = regexp.MustCompile(`uptime ([0-9.]+)s, ran [^\r]*\r\n`)

// TestInitPanicsAtStart has init die before its first mount, so before there is
// a disk to keep the crash on: the consoles have it, and the reboot waits until
// it cannot be a storm.
func TestInitPanicsAtStart(t *testing.T) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{
		Name: "n1", TPM: true, Append: "REVEILLE_FAULT=init-panic",
		Serial: []bench.Pace{bench.StopsAfter(1), bench.Unlimited(), bench.Limited(960)},
	})
	if err := n.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	for _, port := range []int{1, 2} {
		see(t, ctx, n, port, `init crashed: panic: fault: init-panic at the start`)
		see(t, ctx, n, port, `pid1/faults\.go`)
		see(t, ctx, n, port, `-- end of trace --`)
		see(t, ctx, n, port, `init is dead; rebooting in \d+s, so as not to make a storm of reboots`)
		chunks := n.Port(port).Chunks()
		text := textOf(chunks)
		if problem := inPieces(text); problem != "" {
			t.Errorf("ttyS%d: %s:\n%s", port, problem, text)
		}
		m := diedAt.FindStringSubmatchIndex(text)
		died, err := strconv.ParseFloat(text[m[2]:m[3]], 64)
		if err != nil {
			t.Fatal(err)
		}
		late := clockOf(chunks).uptime(chunks, m[1]) - died
		t.Logf("ttyS%d: the summary was whole %.2fs after the end of init", port, late)
		if late > soon.Seconds() {
			t.Errorf("ttyS%d: that is too late", port)
		}
	}
	if n.Reboots() != 0 {
		t.Error("the machine was reset at once")
	}
	if err := n.PowerCut(); err != nil {
		t.Fatal(err)
	}
	n.SetAppend("")
	boot(t, ctx, n, "")
}
