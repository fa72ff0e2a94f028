package cluster

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/storev1"
	"reveille/boot/identity"
)

const (
	ticketPrefix     = "rv1-" // names the thing when it turns up in the wrong field
	defaultTicketTTL = 24 * time.Hour
	maxTicketTTL     = 365 * 24 * time.Hour // a rack may wait long for its power, not for ever
)

// newTicket is 130 random bits: beyond guessing, so its plain SHA-256 in the
// store is beyond reversing.
func newTicket() string { return ticketPrefix + strings.ToLower(rand.Text()) }

// ticketRecord is where a ticket is stored: under its hash, never its text.
func ticketRecord(ticket string) (*record, *storev1.Ticket) {
	sum := sha256.Sum256([]byte(strings.TrimSpace(ticket)))
	msg := new(storev1.Ticket)
	return &record{key: ticketsKey + hex.EncodeToString(sum[:]), msg: msg}, msg
}

// CreateTicket implements clusterv1connect.OperatorServiceHandler.
func (o *operatorService) CreateTicket(ctx context.Context, req *clusterv1.CreateTicketRequest) (*clusterv1.CreateTicketResponse, error) {
	ttl := defaultTicketTTL
	if d := req.GetTtl(); d != nil && d.AsDuration() != 0 {
		ttl = d.AsDuration()
	}
	if ttl < time.Second || ttl > maxTicketTTL {
		return nil, invalid(fmt.Sprintf("a ticket cannot live for %s", ttl), "give a time to live of 1s to 8760h")
	}
	if name := req.GetNode(); name != "" {
		if err := identity.CheckName(name); err != nil {
			return nil, invalid(err.Error(), "name the node by one DNS label")
		}
	}
	text, now := newTicket(), time.Now()
	rec, ticket := ticketRecord(text)
	ticket.Created, ticket.Expires, ticket.Node = timestamppb.New(now), timestamppb.New(now.Add(ttl)), req.GetNode()
	if err := o.store.save(ctx, []*record{rec}, []*record{rec}, nil); err != nil {
		return nil, err
	}
	o.log.Info("ticket created", "operator", caller(ctx), "node", req.GetNode(), "expires", ticket.GetExpires().AsTime().Format(time.RFC3339))
	return &clusterv1.CreateTicketResponse{Ticket: text, Expires: ticket.GetExpires(), Node: req.GetNode()}, nil
}

func invalid(message, remedy string) error {
	return identity.Refuse(connect.CodeInvalidArgument, clusterv1.RefusalKind_REFUSAL_KIND_INVALID, message, remedy)
}
