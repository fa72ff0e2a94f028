package nodeapi

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/identity"
	"reveille/internal/synctest"
)

// fakeServices has one service.
type fakeServices struct {
	mu      sync.Mutex
	service Service
	changed chan struct{}
	shown   chan []byte // by its terminal; closed: no more
	typed   bytes.Buffer
	size    [2]uint16
}

func newFakeServices() *fakeServices {
	return &fakeServices{changed: make(chan struct{}), shown: make(chan []byte, 10),
		service: Service{Name: "vm", Incarnation: 2, Started: 5 * time.Second, Runs: true, State: "running", Instances: []string{"a", "b"}}}
}

func (f *fakeServices) change(how func(*Service)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	how(&f.service)
	close(f.changed)
	f.changed = make(chan struct{})
}

func (f *fakeServices) Service(_ context.Context, name string) (Service, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if name != f.service.Name {
		return Service{}, errors.New("there is no service " + name)
	}
	s := f.service
	s.Instances = slices.Clone(s.Instances)
	return s, nil
}

func (f *fakeServices) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changed
}

func (f *fakeServices) Output(ctx context.Context, _ Service, from uint64) ([]byte, uint64, error) {
	select {
	case data, open := <-f.shown:
		if !open {
			return nil, from, io.EOF
		}
		return data, from + uint64(len(data)), nil
	case <-ctx.Done():
		return nil, from, ctx.Err()
	}
}

func (f *fakeServices) Type(_ context.Context, _ Service, input []byte, rows, columns uint16) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.typed.Write(input)
	if rows > 0 {
		f.size = [2]uint16{rows, columns}
	}
	return nil
}

// attach runs an attachment and returns what it sent, as text, and its error.
func attach(ctx context.Context, f *fakeServices, r *ring, first *clusterv1.AttachRequest, later ...*clusterv1.AttachRequest) (string, error) {
	var sent strings.Builder
	a := &attachment{services: f, logs: r, first: first,
		receive: func() (*clusterv1.AttachRequest, error) {
			if len(later) == 0 {
				return nil, io.EOF
			}
			m := later[0]
			later = later[1:]
			return m, nil
		},
		send: func(m *clusterv1.AttachResponse) error {
			switch {
			case m.GetAttached() != nil:
				sent.WriteString("attached\n")
			case m.GetEnded() != nil:
				sent.WriteString("ended " + m.GetEnded().GetState() + ": " + m.GetEnded().GetReason() + "\n")
			case m.GetLine() != nil:
				sent.WriteString(m.GetLine().GetText() + "\n")
			}
			sent.Write(m.GetOutput())
			return nil
		}}
	err := a.run(ctx)
	return sent.String(), err
}

// What was attached to ends with its reason, and the last words come before.
func TestAttachmentEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		first  *clusterv1.AttachRequest
		change func(*Service)
		want   string
	}{
		"failed": {&clusterv1.AttachRequest{}, func(s *Service) { s.Runs, s.State, s.Reason = false, "failed", "signal 9 (killed)" },
			"ended failed: incarnation 2 of vm is gone: vm is failed: signal 9 (killed)\n"},
		"another follows": {&clusterv1.AttachRequest{}, func(s *Service) { s.Incarnation = 3 },
			"ended running: incarnation 2 of vm is gone: incarnation 3 follows it\n"},
		"removed": {&clusterv1.AttachRequest{}, func(s *Service) { s.Name = "other" },
			"ended removed: incarnation 2 of vm is gone: vm is removed: there is no service vm\n"},
		"instance lost": {&clusterv1.AttachRequest{Instance: "b"}, func(s *Service) { s.Instances = []string{"a"} },
			"ended running: instance b is gone: vm no longer has it\n"},
		"another instance lost": {&clusterv1.AttachRequest{Instance: "b"}, func(s *Service) {
			if s.Instances = s.Instances[1:]; len(s.Instances) == 0 {
				s.Runs, s.State = false, "stopped"
			}
		}, "ended stopped: incarnation 2 of vm is gone: vm is stopped\n"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, r := newFakeServices(), newRing(100)
				for range 5 {
					r.add("svc/vm", "info", "of incarnation 1") // one a second
				}
				r.add("netcfg", "info", "of another")
				r.add("svc/vm", "info", "hello")
				go func() {
					for range 2 {
						time.Sleep(time.Minute)
						r.add("svc/vm", "info", "last words")
						f.change(tc.change)
					}
				}()
				tc.first.Service = "vm"
				got, err := attach(t.Context(), f, r, tc.first)
				if err != nil || !strings.HasPrefix(got, "attached\nof incarnation 1\nhello\nlast words\n") || !strings.HasSuffix(got, tc.want) {
					t.Errorf("got %q, %v", got, err)
				}
				time.Sleep(time.Hour) // for the goroutine above
			})
		})
	}
}

func TestAttachRefuses(t *testing.T) {
	for want, tc := range map[string]struct {
		first *clusterv1.AttachRequest
		how   func(*Service)
	}{
		"there is no service x":                            {&clusterv1.AttachRequest{Service: "x"}, nil},
		"incarnation 1 of vm is gone: the last is 2":       {&clusterv1.AttachRequest{Service: "vm", Incarnation: 1}, nil},
		"vm has no instance z, it has: a, b":               {&clusterv1.AttachRequest{Service: "vm", Instance: "z"}, nil},
		"vm has no instance z, it has: none":               {&clusterv1.AttachRequest{Service: "vm", Instance: "z"}, func(s *Service) { s.Instances = nil }},
		"vm is failed: signal 9 (killed)":                  {&clusterv1.AttachRequest{Service: "vm"}, func(s *Service) { s.Runs, s.State, s.Reason = false, "failed", "signal 9 (killed)" }},
		"vm has no instance z, it has: 1, 2, 3, 4, 5, ...": {&clusterv1.AttachRequest{Service: "vm", Instance: "z"}, func(s *Service) { s.Instances = strings.Split("123456", "") }},
	} {
		f := newFakeServices()
		if tc.how != nil {
			f.change(tc.how)
		}
		if got, err := attach(t.Context(), f, newRing(1), tc.first); got != "" || err == nil || !strings.HasSuffix(err.Error(), ": "+want) {
			t.Errorf("got %q, %v, want %s", got, err, want)
		}
	}
}

func TestAttachToTerminal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeServices()
		f.service.Terminal = true
		f.shown <- []byte("\x1b[1mlogin: ")
		go func() {
			time.Sleep(time.Second)
			f.shown <- []byte("bye\r\n")
			close(f.shown)
			time.Sleep(time.Second)
			f.change(func(s *Service) { s.Runs, s.State = false, "stopped" })
		}()
		got, err := attach(t.Context(), f, newRing(1), &clusterv1.AttachRequest{Service: "vm"},
			&clusterv1.AttachRequest{Size: &clusterv1.TerminalSize{Rows: 50, Columns: 132}}, &clusterv1.AttachRequest{Input: []byte("root\r")})
		if want := "attached\n\x1b[1mlogin: bye\r\nended stopped: incarnation 2 of vm is gone: vm is stopped\n"; err != nil || got != want {
			t.Errorf("got %q, %v", got, err)
		}
		if f.typed.String() != "root\r" || f.size != [2]uint16{50, 132} {
			t.Errorf("typed %q, size %v", f.typed.String(), f.size)
		}
	})
}

// Over the wire, as an operator.
func TestAttachStream(t *testing.T) {
	p := newPeers(t)
	f, r := newFakeServices(), newRing(10)
	r.add("svc/vm", "info", "hello")
	f.change(func(s *Service) { s.Started = 0 })
	client := p.client(identity.RoleOperator, p.startWith(r, f))
	stream, err := client.Attach(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.CloseResponse()
	if err := stream.Send(&clusterv1.AttachRequest{Service: "vm"}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []func(*clusterv1.AttachResponse) bool{
		func(m *clusterv1.AttachResponse) bool { return m.GetAttached().GetIncarnation() == 2 },
		func(m *clusterv1.AttachResponse) bool { return m.GetLine().GetText() == "hello" },
		func(m *clusterv1.AttachResponse) bool { return m.GetEnded().GetState() == "failed" },
	} {
		m, err := stream.Receive()
		if err != nil || !want(m) {
			t.Fatalf("got %v, %v", m, err)
		}
		if m.GetLine() != nil {
			f.change(func(s *Service) { s.Runs, s.State = false, "failed" })
		}
	}
	if _, err := stream.Receive(); !errors.Is(err, io.EOF) {
		t.Errorf("after the end: %v", err)
	}
	stream, err = client.Attach(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer stream.CloseResponse()
	_ = stream.Send(&clusterv1.AttachRequest{Service: "vm"}) // Receive says why not
	if _, err := stream.Receive(); connect.CodeOf(err) != connect.CodeFailedPrecondition {
		t.Errorf("of a service that does not run: %v", err)
	}
}
