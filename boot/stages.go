// Package boot takes a machine from its first process to a member of a
// cluster. It is the agent's program: init (PID 1) starts it, keeps what it
// prints, and starts it again if it dies, so every stage begins by looking at
// what is already there.
package boot

import (
	"context"
	"time"
)

// Stages is the table of contents of a boot. A stage starts when all it needs
// are done; what does not depend on each other runs side by side, so a slow
// TPM is unsealed while the links come up.
//
// A stage that fails is tried again for ever, with backoff and with its cause
// on the console; one that is refused for good (Held) says so and waits for an
// operator. Patience is how long a stage may take before the console says what
// it waits for, and after that it is said again every ten seconds at most: a
// deadline to report, never to give up.
var Stages = []Stage{
	{Name: "mounts", Does: "looking for the kernel's file systems", Patience: 5 * time.Second, Run: (*Node).mounts},
	{Name: "modules", Does: "loading the drivers that the devices ask for", Needs: []string{"mounts"}, Patience: 10 * time.Second, Run: (*Node).modules},
	{Name: "parameters", Does: "looking for node.yaml", Needs: []string{"modules"}, Patience: 10 * time.Second, Run: (*Node).parameters},
	{Name: "network", Does: "making the links what node.yaml says", Needs: []string{"parameters"}, Patience: 10 * time.Second, Run: (*Node).network},
	{Name: "clock", Does: "setting the clock", Needs: []string{"parameters"}, Patience: 10 * time.Second, Run: (*Node).clock},
	{Name: "config", Does: "opening what the cluster gave this node", Needs: []string{"clock"}, Patience: 10 * time.Second, Run: (*Node).config},
	{Name: "join", Does: "joining the cluster", Needs: []string{"network", "config"}, Patience: 10 * time.Second, Run: (*Node).join},
	{Name: "services", Does: "taking the services over", Needs: []string{"network", "config"}, Patience: 30 * time.Second, Run: (*Node).services},
	{Name: "steady", Does: "telling what came of the boot", Needs: []string{"join", "services"}, Patience: 10 * time.Second, Run: (*Node).steady},
}

// Stage is one row of the table.
type Stage struct {
	Name     string
	Does     string // for the console, when it takes long
	Needs    []string
	Patience time.Duration
	Run      func(*Node, context.Context) error
}
