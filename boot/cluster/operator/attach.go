package operator

import (
	"context"
	"errors"
	"fmt"
	"io"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/clusterv1/clusterv1connect"
)

// Attachment is one operator's view of a service.
type Attachment struct {
	Request *clusterv1.AttachRequest // the first message
	Out     io.Writer
	// Begin is called once attached; what it returns is called at the end. It
	// may send input.
	Begin func(a *clusterv1.Attached, send func(*clusterv1.AttachRequest) error) (end func())
}

// Ended is why there is nothing any more to be attached to.
type Ended struct{ Reason string }

// Error implements error.
func (e *Ended) Error() string { return e.Reason }

// Run copies the service's output until ctx ends, which is no error, or the
// service does, which is: Ended.
func (a Attachment) Run(ctx context.Context, client clusterv1connect.OperatorServiceClient) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := client.Attach(ctx)
	if err != nil {
		return err
	}
	defer func() { _ = stream.CloseResponse() }() // its error was Receive's, or says that we left first
	if err := stream.Send(a.Request); err != nil && !errors.Is(err, io.EOF) {
		return err // EOF: Receive says why
	}
	end := func() {}
	defer func() { end() }()
	for {
		m, err := stream.Receive()
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, io.EOF):
			return &Ended{"the connection was closed without a reason"}
		case err != nil:
			return err
		case m.GetEnded() != nil:
			return &Ended{m.GetEnded().GetReason()}
		case m.GetAttached() != nil:
			if a.Begin != nil {
				end = a.Begin(m.GetAttached(), stream.Send)
			}
		default:
			if err := a.show(m); err != nil {
				return fmt.Errorf("write output: %w", err)
			}
		}
	}
}

func (a Attachment) show(m *clusterv1.AttachResponse) error {
	if line := m.GetLine(); line != nil {
		if line.GetLost() > 0 {
			if _, err := fmt.Fprintf(a.Out, "-- %s not shown: the node no longer had them --\n", count(line.GetLost(), "record")); err != nil {
				return err
			}
		}
		_, err := fmt.Fprintln(a.Out, line.GetText())
		return err
	}
	_, err := a.Out.Write(m.GetOutput())
	return err
}
