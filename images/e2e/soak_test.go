//go:build e2e && soak

package e2e

import (
	"testing"

	"reveille/images/rack"
)

// TestAllAgentDeaths is TestAgentDeaths for the other ways to die; it takes ten
// minutes.
func TestAllAgentDeaths(t *testing.T) {
	for _, d := range []death{
		{"agent-hang", `agent crashed: hung: no progress for 30s`, `SIGQUIT: quit`},
		{"agent-exit", `agent crashed: exit status 2`, ``},
		{"agent-nil", `agent crashed: panic: runtime error: invalid memory address`, `goroutine `},
		{"agent-goroutine", `agent crashed: panic: fault: agent-goroutine`, `goroutine `},
		{"agent-stack", `agent crashed: (fatal error: stack overflow|runtime: goroutine stack exceeds)`, `reveille/boot\.overflow`},
		{"agent-oom", `agent crashed: fatal error: .*memory`, `goroutine `},
		{"agent-oomkill", `agent crashed: signal 9 \(killed\)`, ``},
		{"agent-sigill", `agent crashed: SIGILL`, `goroutine `},
		{"agent-sigbus", `agent crashed: (unexpected fault address|fatal error: fault)`, `goroutine `},
	} {
		t.Run(d.fault, d.test)
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
