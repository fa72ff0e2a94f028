package boot

import (
	"context"
	"fmt"

	"reveille/boot/proc"
)

// services ends the phase in which the TPM opens the config, so that no
// payload can read it, and takes over what an agent before this one had
// started: services are children of init and outlive an agent.
func (n *Node) services(ctx context.Context) error {
	if err := n.opened.vault.EndPhase(ctx); err != nil {
		return sealedFault(err)
	}
	processes, err := n.init.List(ctx)
	if err != nil {
		return err
	}
	runs := 0
	for _, p := range processes {
		if p.Running() && p.Name != proc.AgentName {
			runs++
		}
	}
	if runs > 0 {
		n.logger("services").Info(fmt.Sprintf("%d already run, taking them over", runs))
	}
	return nil
}
