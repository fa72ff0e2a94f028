//go:build !faults

package boot

// FaultAtStart does nothing, as fault.
func FaultAtStart() {}

// fault does nothing: a release has no fault hooks.
func (n *Node) fault(point string) {}
