//go:build e2e && soak

package e2e

import "testing"

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
