package boot

import (
	"context"
	"fmt"

	"reveille/console"
)

// steady says once, in one line, what came of the boot.
func (n *Node) steady(ctx context.Context) error {
	info := n.opened.info()
	n.logger("steady").Log(ctx, levelStage, fmt.Sprintf("%s is a member of cluster %s, reachable at %s, config sealed to %s",
		n.params.Name, n.opened.now().ClusterID, console.Examples("addresses", n.net.Status().Addresses, 3), info.Binding))
	return nil
}
