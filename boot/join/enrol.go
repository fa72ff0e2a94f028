package join

import (
	"context"
	"crypto"
	"fmt"
	"time"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/clusterv1/clusterv1connect"
	"reveille/boot/identity"
	"reveille/boot/params"
)

// Enrolment is a node's wish to be one of a cluster.
type Enrolment struct {
	Pin    identity.Pin
	Ticket params.Secret
	Name   string
	// Key is the node's for good. The caller has kept it before it enrols:
	// the ticket is good for one key, so an answer that gets lost can only be
	// asked for again with the same.
	Key        crypto.Signer
	TPMMode    params.TPMMode
	TPMPresent bool
	BootID     string
	BuildID    string
}

// Grant is what the cluster gave, verified: see identity.ParseGrant.
type Grant struct {
	*identity.Grant
	ClusterTime time.Time // zero when the controller did not say
}

// Enrol asks until the cluster grants or refuses. Errors: ErrNoTicket,
// *Refused, or ctx's.
func (c *Client) Enrol(ctx context.Context, e Enrolment) (*Grant, error) {
	if !e.Ticket.Set() {
		return nil, ErrNoTicket
	}
	csr, err := identity.NewCSR(e.Key, e.Name)
	if err != nil {
		return nil, err
	}
	req := &clusterv1.EnrolRequest{
		Ticket:     e.Ticket.Reveal(),
		Name:       e.Name,
		Csr:        csr,
		TpmMode:    tpmMode(e.TPMMode),
		TpmPresent: e.TPMPresent,
		BootId:     e.BootID,
		BuildId:    e.BuildID,
	}
	var grant *Grant
	conf := identity.PinnedClientTLS(e.Pin, c.clock)
	err = c.retry(ctx, !c.shown, func(ctx context.Context) error {
		s, err := c.attempt(ctx, conf, "enrol", func(ctx context.Context, s *session) error {
			resp, err := clusterv1connect.NewEnrolmentServiceClient(s.http, baseURL, options()).Enrol(ctx, req)
			if err != nil {
				return err
			}
			grant, err = checkGrant(resp, e)
			return err
		})
		if err != nil {
			return err
		}
		s.close()
		return nil
	})
	if isRefused(err) {
		return nil, err // names its step
	}
	if err != nil {
		return nil, fmt.Errorf("enrol %s: %w", e.Name, err)
	}
	c.retries.goOn() // the join follows
	return grant, nil
}

func checkGrant(resp *clusterv1.EnrolResponse, e Enrolment) (*Grant, error) {
	g, err := identity.ParseGrant(resp, e.Pin, e.Name, e.Key.Public())
	if err != nil {
		return nil, err
	}
	return &Grant{Grant: g, ClusterTime: clusterTime(resp.GetClusterTime())}, nil
}

func tpmMode(m params.TPMMode) clusterv1.TpmMode {
	switch m {
	case params.TPMRequired:
		return clusterv1.TpmMode_TPM_MODE_REQUIRED
	case params.TPMPreferred:
		return clusterv1.TpmMode_TPM_MODE_PREFERRED
	case params.TPMDisabled:
		return clusterv1.TpmMode_TPM_MODE_DISABLED
	}
	return clusterv1.TpmMode_TPM_MODE_UNSPECIFIED
}
