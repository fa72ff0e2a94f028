//go:build !faults

package boot

// fault does nothing: a release has no fault hooks.
func (n *Node) fault(point string) {}
