package boot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"reveille/boot/nodeapi"
	"reveille/boot/proc"
	"reveille/boot/supervise"
)

// attachable is the node's services as its API serves them. init holds their
// output and their terminals.
type attachable struct{ n *Node }

// Service implements nodeapi.Services.
func (a attachable) Service(_ context.Context, name string) (nodeapi.Service, error) {
	if a.n.supervisor.Load() == nil {
		return nodeapi.Service{}, errors.New("the services have not been taken over yet, try again soon")
	}
	var names []string
	for _, st := range a.n.serviceStatus() {
		if st.Service == name {
			return attachableOf(st), nil
		}
		names = append(names, st.Service)
	}
	if len(names) == 0 {
		return nodeapi.Service{}, fmt.Errorf("there is no service %q, nor any other", name)
	}
	return nodeapi.Service{}, fmt.Errorf("there is no service %q, but there is %s", name, strings.Join(names[:min(len(names), shownServices)], ", "))
}

func attachableOf(st supervise.Status) nodeapi.Service {
	s := nodeapi.Service{
		Name: st.Service, Incarnation: st.Incarnation, Started: st.Started, Terminal: st.Terminal, State: string(st.State), Reason: st.Reason,
		Runs: st.State == supervise.Starting || st.State == supervise.Running || st.State == supervise.Stopping,
	}
	for _, i := range st.Instances {
		if !i.Ended() {
			s.Instances = append(s.Instances, i.ID)
		}
	}
	return s
}

// Changed implements nodeapi.Services.
func (a attachable) Changed() <-chan struct{} { return a.n.track.Changed() }

// Output implements nodeapi.Services.
func (a attachable) Output(ctx context.Context, s nodeapi.Service, from uint64) ([]byte, uint64, error) {
	page, err := a.n.init.Terminal(ctx, proc.TerminalQuery{Target: proc.Target{Name: s.Name, Incarnation: s.Incarnation}, From: from, Wait: true})
	if err == nil && len(page.Data) == 0 && page.End {
		err = io.EOF
	}
	return page.Data, page.Next, err
}

// Type implements nodeapi.Services.
func (a attachable) Type(ctx context.Context, s nodeapi.Service, input []byte, rows, columns uint16) error {
	return a.n.init.Type(ctx, proc.Typed{
		Target: proc.Target{Name: s.Name, Incarnation: s.Incarnation}, Data: input, Rows: rows, Columns: columns,
	})
}
