package boot

import (
	"context"
	"errors"
	"fmt"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/identity"
	"reveille/boot/join"
	"reveille/boot/state"
	"reveille/tpm"
)

func (n *Node) newClient() (*join.Client, error) {
	return join.New(join.Config{
		Endpoints:      n.params.Endpoints,
		Clock:          n.trustedTime,
		Log:            n.logger("join"),
		WaitingIsShown: true, // by the stage that waits
	})
}

// enrol asks the cluster to take this node in, as soon as there is a network.
func (n *Node) enrol(ctx context.Context, c state.Config) (state.Config, error) {
	n.track.Explain("config", func() string { return "needs the network to enrol" })
	defer n.track.Explain("config", nil)
	if err := n.track.Await(ctx, "network"); err != nil {
		return c, err
	}
	n.track.Explain("config", n.client.Waiting)
	key, err := identity.ParseKey(c.Key)
	if err != nil {
		return c, Held{Err: err, Remedy: tpm.Corrupt.Remedy()}
	}
	grant, err := n.client.Enrol(ctx, join.Enrolment{
		Pin: n.params.CA, Ticket: n.params.Ticket, Name: c.NodeName, Key: key,
		TPMMode: n.params.TPM, TPMPresent: n.opened.tpm, BootID: n.bootID, BuildID: n.build.ID,
	})
	if err != nil {
		return c, refusedForGood(err)
	}
	if err := n.clusterTime(grant.ClusterTime); err != nil {
		return c, err
	}
	c.Phase = state.Enrolled
	c.NodeID, c.ClusterID = grant.NodeID, grant.Peer.ClusterID
	c.Certificate, c.CA = grant.Certificate.Raw, grant.CA.Raw
	c.Directory, c.DirectorySignature = grant.Signed.GetDirectory(), grant.Signed.GetSignature()
	c.ClusterTime = grant.ClusterTime
	c.TPMMode = tpm.Disabled
	if grant.TPMMode == clusterv1.TpmMode_TPM_MODE_REQUIRED {
		c.TPMMode = tpm.Required
	}
	if err := n.store(ctx, c); err != nil {
		return c, sealedFault(err)
	}
	n.logger("config").Info(fmt.Sprintf("enrolled in cluster %s, stored as generation %d, sealed to %s", c.ClusterID, n.opened.info().Generation, n.opened.info().Binding))
	return c, nil
}

// refusedForGood holds the stage when asking again cannot change the answer.
func refusedForGood(err error) error {
	var refused *join.Refused
	if errors.As(err, &refused) || errors.Is(err, join.ErrNoTicket) {
		return Held{Err: err}
	}
	return err
}
