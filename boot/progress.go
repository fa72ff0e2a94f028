package boot

import (
	"fmt"

	"reveille/boot/proc"
)

// maxShownAddresses is what the status screen has room for.
const maxShownAddresses = 8

// progress is what init is told of the boot. It is asked for at any time, so it
// looks only at what stages that are done have left.
func (n *Node) progress() proc.Progress {
	p := proc.Progress{Stages: n.track.Stages()}
	p.Stage, p.Waiting = n.track.Now()
	if n.isDone("parameters") {
		p.Facts.Name = n.params.Name
	}
	if net := n.early.Load(); net != nil {
		all := net.Status().Addresses
		for _, a := range all[:min(len(all), maxShownAddresses)] {
			p.Facts.Addresses = append(p.Facts.Addresses, a.String())
		}
	}
	if n.isDone("config") {
		info := n.opened.info()
		p.Facts.Config = fmt.Sprintf("generation %d, sealed to %s", info.Generation, info.Binding)
		if !info.Sealed {
			p.Facts.Config = fmt.Sprintf("generation %d, not sealed", info.Generation)
		}
		p.Facts.Cluster = fmt.Sprintf("enrolled in %s, not joined in this boot", n.opened.now().ClusterID)
	}
	if n.isDone("join") {
		p.Facts.Cluster = "member of " + n.opened.now().ClusterID
	}
	return p
}

func (n *Node) isDone(stage string) bool {
	_, done := n.track.isDone(stage)
	return done
}
