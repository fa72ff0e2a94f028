package boot

import (
	"context"
	"errors"
	"time"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/join"
	"reveille/boot/state"
)

// join announces this boot to the cluster, and then keeps telling it the truth.
func (n *Node) join(ctx context.Context) error {
	n.track.Explain("join", n.client.Waiting)
	c := n.opened.now()
	member, err := n.client.Join(ctx, join.Member{
		CA:               n.opened.ca,
		Certificate:      n.opened.tls(),
		BootID:           n.bootID,
		BuildID:          n.build.ID,
		ConfigGeneration: n.opened.info().Generation,
		Directory:        &clusterv1.SignedDirectory{Directory: c.Directory, Signature: c.DirectorySignature},
		KeepDirectory:    n.keepDirectory,
		Services:         n.desired.Given,
		KeepServices:     n.keepServices,
		Status:           n.status,
	})
	if err != nil {
		return refusedForGood(err)
	}
	n.member = member
	if err := n.clusterTime(member.ClusterTime()); err != nil {
		n.logger("clock").Warn(err.Error() + ", going on with the clock as it is")
	}
	if err := n.storeTime(ctx, member.ClusterTime()); err != nil {
		n.logger("config").Warn(err.Error() + ", going on: the time is stored at the next boot")
	}
	n.keep(ctx, "join", n.stayMember)
	n.keep(ctx, "status", n.kickOnChange)
	n.keep(ctx, "hosts", n.keepHosts)
	n.keep(ctx, "bundle", n.sendRecords)
	return nil
}

// stayMember sends heartbeats. A node that the cluster refuses from now on,
// because it was removed, says so and stays up for its operator.
func (n *Node) stayMember(ctx context.Context) error {
	err := n.member.Run(ctx)
	var refused *join.Refused
	if !errors.As(err, &refused) {
		return err
	}
	n.track.hold("join", err.Error())
	n.logger("join").Error("held until a reboot: " + err.Error())
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(repeatHeld):
			line, _ := n.track.waiting("join")
			n.logger("join").Warn(line)
		}
	}
}

// kickOnChange has the cluster hear of a change of stage at once, and answer
// when it has news.
func (n *Node) kickOnChange(ctx context.Context) error {
	for {
		changed := n.track.Changed()
		n.member.Kick()
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-n.nudged:
		}
	}
}

// keepDirectory stores a newer directory, which join has verified.
func (n *Node) keepDirectory(ctx context.Context, d *clusterv1.SignedDirectory) error {
	err := n.change(ctx, func(c *state.Config) {
		c.Directory, c.DirectorySignature = d.GetDirectory(), d.GetSignature()
	})
	n.net.SetHosts(n.hosts(n.net.Status().Addresses))
	return err
}

// storeTimeAfter spares the disk: the stored time only keeps a machine without
// a battery from falling back by more than this.
const storeTimeAfter = 24 * time.Hour

func (n *Node) storeTime(ctx context.Context, at time.Time) error {
	if at.Sub(n.opened.lastTime()) < storeTimeAfter {
		return nil
	}
	return n.change(ctx, func(c *state.Config) { c.ClusterTime = at })
}
