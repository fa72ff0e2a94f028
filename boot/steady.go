package boot

import (
	"context"
	"fmt"
	"os"
	"strings"

	"reveille/console"
)

// steady says once, in one line, what came of the boot.
func (n *Node) steady(ctx context.Context) error {
	n.track.Explain("steady", n.unsteady)
	n.logger("steady").Info(fmt.Sprintf("resident memory: init %s, agent %s", resident("/proc/1/status"), resident("/proc/self/status")))
	info := n.opened.info()
	n.logger("steady").Log(ctx, levelStage, fmt.Sprintf("%s is a member of cluster %s, reachable at %s, config sealed to %s",
		n.params.Name, n.opened.now().ClusterID, console.Examples("addresses", n.net.Status().Addresses, 3), info.Binding))
	return nil
}

// unsteady says what a member of the cluster lacks, empty for nothing: its
// controller, or a part of its network.
func (n *Node) unsteady() string {
	if waiting := n.client.Waiting(); waiting != "" {
		return waiting
	}
	return explainNetwork(n.net.Status())
}

// resident is the VmRSS of a process (proc_pid_status(5)), for people.
func resident(status string) string {
	text, err := os.ReadFile(status)
	if err != nil {
		return "unknown"
	}
	for line := range strings.Lines(string(text)) {
		var kib int
		if n, _ := fmt.Sscanf(line, "VmRSS: %d kB", &kib); n == 1 {
			return fmt.Sprintf("%.1f MiB", float64(kib)/1024)
		}
	}
	return "unknown"
}
