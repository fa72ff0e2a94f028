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
	n.logger("steady").Info(fmt.Sprintf("resident memory: PID 1 %s, init %s, agent %s",
		resident(1), resident(os.Getppid()), resident(os.Getpid())))
	info := n.opened.info()
	n.logger("steady").Log(ctx, levelStage, fmt.Sprintf("%s is a member of cluster %s, reachable at %s, config sealed to %s",
		n.params.Name, n.opened.now().ClusterID, console.Examples("addresses", n.net.Status().Addresses, 3), info.Binding))
	return nil
}

// unsteady says what a member of the cluster lacks, empty for nothing: its
// controller, or a part of its network, a service.
func (n *Node) unsteady() string {
	if waiting := n.client.Waiting(); waiting != "" {
		return waiting
	}
	if text := explainNetwork(n.net.Status()); text != "" {
		return text
	}
	return n.serviceTrouble()
}

// resident is the memory of a process (proc_pid_status(5)), for people: all of
// it, and its own part; the rest is the program, which all three share.
func resident(pid int) string {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return "unknown"
	}
	var all, own float64 // KiB
	for line := range strings.Lines(string(text)) {
		_, _ = fmt.Sscanf(line, "VmRSS: %f kB", &all) // other lines do not match
		_, _ = fmt.Sscanf(line, "RssAnon: %f kB", &own)
	}
	return fmt.Sprintf("%.1f MiB (own %.1f)", all/1024, own/1024)
}
