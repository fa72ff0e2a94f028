package cluster

import (
	"fmt"
	"time"

	"connectrpc.com/connect"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/storev1"
	"reveille/boot/identity"
)

// claim is an enrolment request beside what the store says about it.
type claim struct {
	now  time.Time
	name string
	key  string // hex SHA-256 of the public key
	text string // the ticket, as sent
	mode clusterv1.TpmMode
	tpm  bool // the node has one

	ticketKnown bool
	ticket      *storev1.Ticket
	node        *storev1.Node     // of that name; empty: none
	owner       *storev1.KeyOwner // of that key; empty: none
}

type verdict int

const (
	refused       verdict = iota
	grantedBefore         // a repeated request: answer the same again
	newTicketOnly         // this node, already enrolled, with another ticket: use that up too
	newNode
)

// decide is the whole of the enrolment policy. Its errors are refusals.
func (c *claim) decide() (verdict, error) {
	if v, err := c.checkTicket(); v == grantedBefore || err != nil {
		return v, err
	}
	if member := c.node.GetId() != "" && c.node.GetRemoved() == nil; member {
		if c.node.GetKeySha256() == c.key {
			return newTicketOnly, nil
		}
		return refuse(connect.CodeAlreadyExists, clusterv1.RefusalKind_REFUSAL_KIND_NAME_TAKEN,
			fmt.Sprintf("another machine is node %s", c.name),
			fmt.Sprintf("give this machine another name, or, if it replaces that one: reveille node remove %s", c.name))
	}
	if owner := c.owner.GetNode(); owner != "" {
		return refuse(connect.CodeAlreadyExists, clusterv1.RefusalKind_REFUSAL_KIND_INVALID,
			fmt.Sprintf("this machine's key already belongs to node %s", owner),
			"two machines must not share a state partition: wipe this one's, and enrol with a new ticket")
	}
	if c.mode == clusterv1.TpmMode_TPM_MODE_REQUIRED && !c.tpm {
		return refuse(connect.CodeFailedPrecondition, clusterv1.RefusalKind_REFUSAL_KIND_TPM_REQUIRED,
			"the node parameters require a TPM, and the node found none",
			"enable the TPM in the firmware, or set tpm: preferred in node.yaml")
	}
	return newNode, nil
}

// checkTicket returns grantedBefore for the very request that used the ticket.
func (c *claim) checkTicket() (verdict, error) {
	const remedy = "create a new one: reveille ticket create"
	const code = connect.CodePermissionDenied
	if !c.ticketKnown {
		return refuse(code, clusterv1.RefusalKind_REFUSAL_KIND_TICKET_UNKNOWN, "the cluster does not know this ticket",
			"check that it was copied whole and is of this cluster, or "+remedy)
	}
	if bound := c.ticket.GetNode(); bound != "" && bound != c.name {
		return refuse(code, clusterv1.RefusalKind_REFUSAL_KIND_TICKET_OTHER_NODE,
			fmt.Sprintf("this ticket is for another node than %s", c.name), remedy+" --node "+c.name)
	}
	if c.ticket.GetUsedByKey() == "" {
		if end := c.ticket.GetExpires().AsTime(); !c.now.Before(end) {
			return refuse(code, clusterv1.RefusalKind_REFUSAL_KIND_TICKET_EXPIRED,
				fmt.Sprintf("this ticket expired at %s", end.Format(time.RFC3339)), remedy)
		}
		return refused, nil
	}
	if c.ticket.GetUsedByKey() != c.key || c.ticket.GetUsedByNode() != c.name {
		return refuse(code, clusterv1.RefusalKind_REFUSAL_KIND_TICKET_USED,
			fmt.Sprintf("this ticket was used at %s, by another key or name", c.ticket.GetUsed().AsTime().Format(time.RFC3339)), remedy)
	}
	if c.node.GetRemoved() != nil || c.node.GetKeySha256() != c.key {
		return refuse(code, clusterv1.RefusalKind_REFUSAL_KIND_NODE_REMOVED,
			fmt.Sprintf("node %s was removed from the cluster", c.name), "to enrol it again, "+remedy)
	}
	return grantedBefore, nil
}

// resolveTPM turns the wish into the decision that the node keeps for good.
func (c *claim) resolveTPM() clusterv1.TpmMode {
	if c.tpm && c.mode != clusterv1.TpmMode_TPM_MODE_DISABLED {
		return clusterv1.TpmMode_TPM_MODE_REQUIRED
	}
	return clusterv1.TpmMode_TPM_MODE_DISABLED
}

func refuse(code connect.Code, kind clusterv1.RefusalKind, message, remedy string) (verdict, error) {
	return refused, identity.Refuse(code, kind, message, remedy)
}
