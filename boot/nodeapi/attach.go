package nodeapi

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"connectrpc.com/connect"

	"reveille/boot/cluster/clusterv1"
)

// Service is what a service is at, for who is attached to it.
type Service struct {
	Name        string
	Incarnation uint64        // the one that runs, or the last
	Started     time.Duration // of it, since boot
	Runs        bool
	Terminal    bool
	State       string
	Reason      string   // of the state
	Instances   []string // IDs of those that it serves
}

// String is "vm is failed: signal 9 (killed)".
func (s Service) String() string {
	text := s.Name + " is " + s.State
	if s.Reason != "" {
		text += ": " + s.Reason
	}
	return text
}

// Services is what the node runs.
type Services interface {
	// Service finds one by its name; the error says why not.
	Service(ctx context.Context, name string) (Service, error)
	// Changed is closed at the next change of any of them.
	Changed() <-chan struct{}
	// Output returns what an incarnation has written to its terminal from an
	// offset on, as soon as there is something; io.EOF when no more will come.
	Output(ctx context.Context, s Service, from uint64) (data []byte, next uint64, err error)
	// Type types into the terminal; a zero size is no change.
	Type(ctx context.Context, s Service, input []byte, rows, columns uint16) error
}

// attachment is one reader of a service.
type attachment struct {
	services Services
	logs     LogSource
	first    *clusterv1.AttachRequest
	service  Service
	receive  func() (*clusterv1.AttachRequest, error)
	send     func(*clusterv1.AttachResponse) error // of one goroutine at a time
}

// Attach implements clusterv1connect.NodeServiceHandler.
func (s *Server) Attach(ctx context.Context, stream *connect.BidiStream[clusterv1.AttachRequest, clusterv1.AttachResponse]) error {
	if s.streams.Add(1) > maxStreams {
		s.streams.Add(-1)
		return connect.NewError(connect.CodeResourceExhausted, fmt.Errorf("attach: %d others are reading, try again later", maxStreams))
	}
	defer s.streams.Add(-1)
	first, err := stream.Receive()
	if err != nil {
		return err
	}
	a := &attachment{services: s.cfg.Services, logs: s.cfg.Logs, first: first, receive: stream.Receive, send: stream.Send}
	return a.run(ctx)
}

// run ends when there is nothing any more to be attached to, and says so in its
// last message.
func (a *attachment) run(ctx context.Context) error {
	if err := a.find(ctx); err != nil {
		return err
	}
	err := a.send(&clusterv1.AttachResponse{Attached: &clusterv1.Attached{Incarnation: a.service.Incarnation, Terminal: a.service.Terminal}})
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go a.takeInput(ctx)
	ended := make(chan Service, 1)
	reading, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		if s, err := a.awaitEnd(ctx); err == nil {
			ended <- s
			a.settle(ctx)
			stop()
		}
	}()
	if err := a.copyOutput(reading); err != nil && reading.Err() == nil {
		return connect.NewError(connect.CodeUnavailable, fmt.Errorf("attach to %s: %w", a.service.Name, err))
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case s := <-ended:
		return a.send(&clusterv1.AttachResponse{Ended: &clusterv1.Detached{Reason: a.farewell(s), State: s.State}})
	}
}

// find looks for what the first message asks for.
func (a *attachment) find(ctx context.Context) error {
	s, err := a.services.Service(ctx, a.first.GetService())
	if err != nil {
		return connect.NewError(connect.CodeNotFound, err)
	}
	asked, instance := a.first.GetIncarnation(), a.first.GetInstance()
	switch {
	case asked != 0 && asked != s.Incarnation:
		err = fmt.Errorf("incarnation %d of %s is gone: the last is %d", asked, s.Name, s.Incarnation)
	case !s.Runs:
		err = errors.New(s.String())
	case instance != "" && !slices.Contains(s.Instances, instance):
		err = fmt.Errorf("%s has no instance %s, it has: %s", s.Name, instance, orNone(s.Instances))
	}
	if err != nil {
		return connect.NewError(connect.CodeFailedPrecondition, err)
	}
	a.service = s
	return nil
}

func orNone(names []string) string {
	const show = 5
	if len(names) == 0 {
		return "none"
	}
	text := strings.Join(names[:min(len(names), show)], ", ")
	if len(names) > show {
		text += ", ..."
	}
	return text
}

// awaitEnd returns once the incarnation, or the instance, is gone.
func (a *attachment) awaitEnd(ctx context.Context) (Service, error) {
	for {
		changed := a.services.Changed()
		s, err := a.services.Service(ctx, a.service.Name)
		switch {
		case ctx.Err() != nil:
			return s, ctx.Err()
		case err != nil: // it is not defined any more
			return Service{Name: a.service.Name, State: "removed", Reason: err.Error()}, nil
		case s.Incarnation != a.service.Incarnation, !s.Runs:
			return s, nil
		case a.first.GetInstance() != "" && !slices.Contains(s.Instances, a.first.GetInstance()):
			return s, nil
		}
		select {
		case <-ctx.Done():
			return s, ctx.Err()
		case <-changed:
		}
	}
}

// farewell says why it ended.
func (a *attachment) farewell(s Service) string {
	was := fmt.Sprintf("incarnation %d of %s is gone", a.service.Incarnation, a.service.Name)
	switch {
	case s.Incarnation == a.service.Incarnation && s.Runs:
		return fmt.Sprintf("instance %s is gone: %s no longer has it", a.first.GetInstance(), a.service.Name)
	case s.Incarnation == a.service.Incarnation || s.Incarnation == 0:
		return was + ": " + s.String()
	}
	return fmt.Sprintf("%s: incarnation %d follows it", was, s.Incarnation)
}

// lastWords is how long the output of an incarnation that has ended is waited
// for: it comes through init, which may have much to read.
const lastWords = 500 * time.Millisecond

func (a *attachment) settle(ctx context.Context) { _ = sleep(ctx, lastWords) }

// takeInput types what comes. That nobody types any more ends nothing.
func (a *attachment) takeInput(ctx context.Context) {
	for ctx.Err() == nil {
		in, err := a.receive()
		if err != nil {
			return
		}
		size := in.GetSize()
		if !a.service.Terminal || len(in.GetInput()) == 0 && size == nil {
			continue
		}
		rows, columns := uint16(min(size.GetRows(), maxSize)), uint16(min(size.GetColumns(), maxSize))
		// A program that has ended, or does not read: its output tells.
		_ = a.services.Type(ctx, a.service, in.GetInput(), rows, columns)
	}
}

// maxSize of a terminal, far above any.
const maxSize = 10_000

func (a *attachment) copyOutput(ctx context.Context) error {
	if a.service.Terminal {
		return a.copyTerminal(ctx)
	}
	f := &follower{
		logs:  a.logs,
		query: Query{Origins: []string{"svc/" + a.service.Name}, Max: pageSize},
		send: func(r *clusterv1.LogRecord) error {
			if r.GetUptime().AsDuration() < a.service.Started {
				return nil // of an incarnation before it
			}
			return a.send(&clusterv1.AttachResponse{Line: r})
		},
	}
	return f.run(ctx, &clusterv1.LogsRequest{Follow: true, Tail: a.first.GetTail()})
}

func (a *attachment) copyTerminal(ctx context.Context) error {
	for from := uint64(0); ; {
		data, next, err := a.services.Output(ctx, a.service, from)
		if errors.Is(err, io.EOF) {
			<-ctx.Done() // why it ended comes soon
			return nil
		}
		if err != nil {
			return err
		}
		if err := a.send(&clusterv1.AttachResponse{Output: data}); err != nil {
			return err
		}
		from = next
	}
}
