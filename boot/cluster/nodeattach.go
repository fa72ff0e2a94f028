package cluster

import (
	"context"
	"errors"
	"io"

	"connectrpc.com/connect"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/clusterv1/clusterv1connect"
	"reveille/boot/cluster/dial"
)

// Attach implements clusterv1connect.OperatorServiceHandler: it relays the
// node's own Attach, both ways. What the node says of itself is cleaned; what a
// terminal shows is not, for that is what it is for.
func (o *operatorService) Attach(ctx context.Context, in *connect.BidiStream[clusterv1.AttachRequest, clusterv1.AttachResponse]) error {
	first, err := in.Receive()
	if err != nil {
		return err
	}
	at, err := o.reach(ctx, first.GetNode())
	if err != nil {
		return err
	}
	err = o.relay.attach(ctx, at, first, in)
	if o.relay.running.Err() != nil {
		return connect.NewError(connect.CodeUnavailable, errors.New("this controller stops; attach again"))
	}
	if err != nil {
		return relayError(first.GetNode(), err)
	}
	return nil
}

func (r *relay) attach(ctx context.Context, at place, first *clusterv1.AttachRequest, in *connect.BidiStream[clusterv1.AttachRequest, clusterv1.AttachResponse]) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(r.running, cancel)()
	client := r.client(at)
	defer client.CloseIdleConnections()
	out, err := clusterv1connect.NewNodeServiceClient(client, dial.BaseURL, connect.WithReadMaxBytes(maxLogRecord)).Attach(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = out.CloseResponse() }() // its error was Receive's, or says that we left first
	if err := out.Send(first); err != nil {
		_, err = out.Receive() // which says why
		return err
	}
	go func() {
		for {
			msg, err := in.Receive()
			if err != nil || out.Send(msg) != nil {
				_ = out.CloseRequest() // nobody types any more, the output goes on
				return
			}
		}
	}()
	for {
		msg, err := out.Receive()
		if err != nil {
			return ended(err)
		}
		if err := in.Send(cleanAttach(msg)); err != nil {
			return err
		}
	}
}

// ended is a stream's error, nil for its proper end.
func ended(err error) error {
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func cleanAttach(m *clusterv1.AttachResponse) *clusterv1.AttachResponse {
	if m.GetLine() != nil {
		m.Line = cleanRecord(m.GetLine())
	}
	if e := m.GetEnded(); e != nil {
		e.Reason, e.State = printable(e.GetReason(), maxReason), printable(e.GetState(), maxName)
	}
	return m
}
