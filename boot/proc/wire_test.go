package proc

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
)

func serving(t *testing.T, ops map[string]Handler) (*Client, net.Conn) {
	t.Helper()
	server, client := net.Pipe()
	done := make(chan error, 1)
	go func() { done <- Serve(t.Context(), server, ops) }()
	t.Cleanup(func() {
		client.Close()
		if err := <-done; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
	return NewClient(client), client
}

func TestCallsMeetTheirReplies(t *testing.T) {
	release := make(chan struct{})
	client, _ := serving(t, map[string]Handler{
		OpWait: Handle(func(ctx context.Context, in Target) (Process, error) {
			select { // the waiting call must hold nobody
			case <-release:
			case <-ctx.Done():
			}
			return Process{Spec: Spec{Name: in.Name}, Exit: &Exit{Code: 3}}, nil
		}),
		OpStart: Handle(func(_ context.Context, in Spec) (Process, error) {
			if in.Name == "bad" {
				return Process{}, errors.New("no such file")
			}
			return Process{Spec: in, PID: 7}, nil
		}),
	})
	var all sync.WaitGroup
	all.Go(func() {
		p, err := client.Wait(t.Context(), Target{Name: "slow"})
		if err != nil || p.Name != "slow" || p.Exit.Code != 3 {
			t.Errorf("wait: %+v, %v", p, err)
		}
	})
	for n := range 50 {
		all.Go(func() {
			name := fmt.Sprint("s", n)
			p, err := client.Start(t.Context(), Spec{Name: name})
			if err != nil || p.Name != name {
				t.Errorf("start %s: %+v, %v", name, p, err)
			}
		})
	}
	all.Go(func() {
		if _, err := client.Start(t.Context(), Spec{Name: "bad"}); err == nil || err.Error() != "start: no such file" {
			t.Errorf("error: %v", err)
		}
		if _, err := client.List(t.Context()); err == nil || !strings.Contains(err.Error(), "unknown operation") {
			t.Errorf("unknown operation: %v", err)
		}
		close(release)
	})
	all.Wait()
}

// TestMarkupFitsAFrame sends the largest page of the log there is, made of the
// characters that JSON likes to escape, and then something that never fits.
func TestMarkupFitsAFrame(t *testing.T) {
	text := strings.Repeat("<&>\x00\"", MaxLogBytes/5)
	client, _ := serving(t, map[string]Handler{
		OpLog: Handle(func(context.Context, LogQuery) (LogPage, error) {
			return LogPage{Records: []LogRecord{{Text: text}}}, nil
		}),
		OpKept: Handle(func(context.Context, Kept) (Kept, error) {
			return Kept{Data: make([]byte, maxFrame)}, nil
		}),
	})
	page, err := client.Log(t.Context(), LogQuery{})
	if err != nil || page.Records[0].Text != text {
		t.Errorf("markup did not cross: %v", err)
	}
	if _, err := client.Kept(t.Context(), KeptConfig); err == nil || !strings.Contains(err.Error(), "the limit is") {
		t.Errorf("too much: %v", err)
	}
	if _, err := client.Log(t.Context(), LogQuery{}); err != nil {
		t.Errorf("after too much: %v", err)
	}
}

// TestLeavingCallersLeaveRoom has more calls that wait than fit at once,
// all of whose callers leave: as `node logs -f` does once a minute for a day.
func TestLeavingCallersLeaveRoom(t *testing.T) {
	waiting := make(chan struct{})
	client, _ := serving(t, map[string]Handler{
		OpWait: func(ctx context.Context, _ json.RawMessage) (any, error) {
			waiting <- struct{}{}
			<-ctx.Done()
			return nil, ctx.Err()
		},
		OpStage: Handle(func(context.Context, Progress) (Nothing, error) { return Nothing{}, nil }),
	})
	for range maxInFlight + 100 {
		ctx, leave := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := client.Wait(ctx, Target{})
			left <- err
		}()
		<-waiting
		leave()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
	}
	if err := client.SetStage(t.Context(), Progress{}); err != nil {
		t.Errorf("no room for a sign of life: %v", err)
	}
}

// TestManyServicesLeaveRoom: what waits for as many services as a node may have
// is in nobody's way, not even when all are stopped at once.
func TestManyServicesLeaveRoom(t *testing.T) {
	const services = 1000
	waiting := make(chan struct{})
	wait := func(ctx context.Context, _ json.RawMessage) (any, error) {
		waiting <- struct{}{}
		<-ctx.Done()
		return nil, ctx.Err()
	}
	client, _ := serving(t, map[string]Handler{
		OpNotices: wait, OpWait: wait,
		OpSignal: Handle(func(context.Context, Target) (Nothing, error) { return Nothing{}, nil }),
		OpStage:  Handle(func(context.Context, Progress) (Nothing, error) { return Nothing{}, nil }),
	})
	ctx, leave := context.WithCancel(t.Context())
	var waits, signals sync.WaitGroup
	for range services {
		waits.Go(func() { _, _ = client.Notices(ctx, NoticeQuery{}) }) // ends with ctx
		waits.Go(func() { _, _ = client.Wait(ctx, Target{}) })
		<-waiting
		<-waiting
	}
	for range services {
		signals.Go(func() {
			if err := client.Signal(t.Context(), Target{}); err != nil {
				t.Error(err)
			}
		})
	}
	if err := client.SetStage(t.Context(), Progress{}); err != nil {
		t.Errorf("no room for a sign of life: %v", err)
	}
	signals.Wait()
	leave()
	waits.Wait()
}

func TestPendingCallsEndWithTheSocket(t *testing.T) {
	started := make(chan struct{})
	client, conn := serving(t, map[string]Handler{
		OpWait: func(ctx context.Context, _ json.RawMessage) (any, error) {
			close(started)
			<-ctx.Done()
			return Nothing{}, nil
		},
	})
	go func() { <-started; conn.Close() }()
	if _, err := client.Wait(t.Context(), Target{}); !errors.Is(err, ErrInitGone) {
		t.Errorf("pending call: %v", err)
	}
	if _, err := client.List(t.Context()); !errors.Is(err, ErrInitGone) {
		t.Errorf("later call: %v", err)
	}
}
