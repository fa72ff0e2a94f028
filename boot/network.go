package boot

import (
	"context"
	"fmt"
	"slices"
	"time"

	"reveille/netcfg"
)

const (
	resolvConf = "/etc/resolv.conf"
	// leaseDir is on a tmpfs: a lease is for this boot.
	leaseDir = "/run/reveille/leases"
)

// degradedAfter is how long a link that the document wants may keep a node
// from joining that has an address already. It is the stage's patience: a
// node with one dead port is better in the cluster, telling of it, than out.
const degradedAfter = 10 * time.Second

// network makes the network what the parameters say, and keeps it so. The
// stage is done when everything wanted is there, or when enough is there to
// reach a cluster and the rest has had its time.
func (n *Node) network(ctx context.Context) error {
	log := n.logger("netcfg")
	for _, name := range n.params.Network.Modules() {
		if err := n.loader.Load(name); err != nil {
			log.Warn(err.Error() + ", going on: the kernel may have it built in")
		}
	}
	if n.net == nil {
		n.net = netcfg.New(n.params.Network, log, netcfg.Options{
			ResolvConf: resolvConf,
			Sysctls:    n.params.Sysctls,
			Leases:     leaseDir,
			Hosts:      hostsFile,
			LoadModule: n.loader.Load,
			Applied:    func(netcfg.Op) { n.fault("network-half") },
		})
		n.early.Store(n.net)
		n.track.Explain("network", func() string { return explainNetwork(n.net.Status()) })
	}
	n.keep(ctx, "netcfg", n.net.Run)
	return n.awaitLinks(ctx)
}

func (n *Node) awaitLinks(ctx context.Context) error {
	patience, cancel := context.WithTimeout(ctx, degradedAfter)
	defer cancel()
	err := n.net.WaitFor(patience, allThere)
	if err == nil || ctx.Err() != nil {
		return ctx.Err()
	}
	if err := n.net.WaitFor(ctx, netcfg.Status.Ready); err != nil {
		return err
	}
	if missing := explainNetwork(n.net.Status()); missing != "" {
		n.logger("netcfg").Warn("going on degraded: " + missing)
	}
	return nil
}

// allThere is a network that is as it should be, but perhaps for addresses
// that the kernel still checks: IPv4 need not wait for IPv6.
func allThere(s netcfg.Status) bool {
	return s.Converged && s.Ready() && explainNetwork(s) == ""
}

// explainNetwork words what the network lacks and will not get by itself in a
// moment; empty for nothing.
func explainNetwork(s netcfg.Status) string {
	if s.Failed != "" {
		return s.Failed
	}
	var first string
	more := 0
	for _, w := range s.Waits {
		switch {
		case w.Optional, w.Passing:
		case first == "":
			first = w.Text()
		default:
			more++
		}
	}
	switch {
	case more > 0:
		return fmt.Sprintf("%s (and %d more)", first, more)
	case first == "" && s.Converged && !s.Ready():
		return noAddress(s)
	}
	return first
}

// noAddress says why a network that lacks nothing it wants cannot be used.
func noAddress(s netcfg.Status) string {
	passing := func(w netcfg.Wait) bool { return w.Passing }
	switch {
	case slices.ContainsFunc(s.Waits, passing):
		return "" // in a moment
	case len(s.Waits) > 0:
		return "no usable address; " + s.Waits[0].Link + ", which is optional: " + s.Waits[0].Reason
	}
	return "no usable address: the node parameters configure none"
}
