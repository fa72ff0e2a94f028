package cluster

import (
	"context"
	"crypto/ecdsa"
	"fmt"
	"log/slog"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/storev1"
	"reveille/boot/identity"
)

// enrolmentService turns tickets into nodes. Anybody may call it.
type enrolmentService struct {
	store     *store
	authority *identity.Authority
	log       *slog.Logger
}

// Enrol implements clusterv1connect.EnrolmentServiceHandler. It changes the
// store in one transaction or not at all, so a node killed anywhere, or whose
// reply was lost, repeats the request and gets the same grant.
func (e *enrolmentService) Enrol(ctx context.Context, req *clusterv1.EnrolRequest) (*clusterv1.EnrolResponse, error) {
	c, pub, err := claimOf(req)
	if err == nil {
		err = transact(ctx, func() error { return e.settle(ctx, c, pub) })
	}
	if r := identity.RefusalOf(err); r != nil {
		e.log.Warn("enrolment refused", "node", printable(req.GetName(), maxName), "kind", r.GetKind(), "cause", r.GetMessage(), "from", remote(ctx))
	}
	if err != nil {
		return nil, err
	}
	return e.grant(ctx, c.node)
}

// claimOf checks what can be checked without the store.
func claimOf(req *clusterv1.EnrolRequest) (*claim, *ecdsa.PublicKey, error) {
	if err := identity.CheckName(req.GetName()); err != nil {
		return nil, nil, invalid("node name: "+printable(err.Error(), maxReason), "give the node a name that is one DNS label")
	}
	if len(req.GetTicket()) > maxTicket {
		return nil, nil, invalid("the ticket is too long to be one", "copy the ticket as `reveille ticket create` printed it")
	}
	pub, err := identity.ParseCSR(req.GetCsr(), req.GetName())
	if err != nil {
		return nil, nil, invalid(printable(err.Error(), maxReason), "send a PKCS #10 request in DER, for a P-256 key, whose common name is the node's name")
	}
	key, err := identity.KeySHA256(pub)
	if err != nil {
		return nil, nil, err
	}
	return &claim{name: req.GetName(), key: key, mode: req.GetTpmMode(), tpm: req.GetTpmPresent(), text: req.GetTicket()}, pub, nil
}

// settle loads what the claim touches, decides, and commits.
func (e *enrolmentService) settle(ctx context.Context, c *claim, pub *ecdsa.PublicKey) error {
	c.now = time.Now()
	c.node, c.owner = new(storev1.Node), new(storev1.KeyOwner)
	ticket, ticketMsg := ticketRecord(c.text)
	node := &record{key: nodesKey + c.name, msg: c.node}
	owner := &record{key: keysKey + c.key, msg: c.owner}
	c.ticket = ticketMsg
	loaded := []*record{ticket, node, owner}
	if err := e.store.load(ctx, loaded...); err != nil {
		return err
	}
	c.ticketKnown = ticket.exists()
	verdict, err := c.decide()
	if err != nil || verdict == grantedBefore {
		return err
	}
	ticketMsg.UsedByKey, ticketMsg.UsedByNode, ticketMsg.Used = c.key, c.name, timestamppb.New(c.now)
	put := []*record{ticket}
	if verdict == newNode {
		if err := e.create(c, pub); err != nil {
			return err
		}
		put = loaded
	}
	if err := e.store.save(ctx, loaded, put, nil); err != nil {
		return err
	}
	e.log.Info("node enrolled", "node", c.name, "id", c.node.GetId(), "key", c.key[:16], "tpm", c.node.GetTpmMode(), "again", verdict == newTicketOnly, "from", remote(ctx))
	return nil
}

// create fills the node's record, and names it the key's owner.
func (e *enrolmentService) create(c *claim, pub *ecdsa.PublicKey) error {
	cert, err := e.authority.Issue(identity.RoleNode, c.name, pub, c.now, 0)
	if err != nil {
		return err
	}
	c.node.Reset()
	c.node.Id, c.node.Name, c.node.KeySha256 = newID(), c.name, c.key
	c.node.TpmMode, c.node.Certificate = c.resolveTPM(), cert.Raw
	c.node.Enrolled = timestamppb.New(c.now)
	c.owner.Node = c.name
	return nil
}

func (e *enrolmentService) grant(ctx context.Context, n *storev1.Node) (*clusterv1.EnrolResponse, error) {
	dir := new(clusterv1.SignedDirectory)
	if err := e.store.load(ctx, &record{key: directoryKey, msg: dir}); err != nil {
		return nil, fmt.Errorf("grant enrolment: %w", err)
	}
	return &clusterv1.EnrolResponse{
		NodeId:        n.GetId(),
		ClusterId:     e.authority.ClusterID,
		Certificate:   n.GetCertificate(),
		CaCertificate: e.authority.Certificate.Raw,
		Directory:     dir,
		TpmMode:       n.GetTpmMode(),
		ClusterTime:   timestamppb.Now(),
	}, nil
}
