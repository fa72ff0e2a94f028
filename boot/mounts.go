package boot

import (
	"context"
	"fmt"
	"os"
)

// needed are the files by which a stage sees that init's mounts are there.
var needed = []string{"/proc/self", "/sys/devices", "/dev/null", "/run"}

// mounts checks what init has mounted: an agent can also be started by hand.
func (n *Node) mounts(context.Context) error {
	for _, path := range needed {
		if _, err := os.Stat(path); err != nil {
			return fmt.Errorf("look for a mounted %s: %w", path, err)
		}
	}
	return nil
}
