package nodeapi

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"connectrpc.com/connect"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/cluster/clusterv1/clusterv1connect"
	"reveille/boot/identity"
	"reveille/internal/synctest"
)

// ring is a LogSource that keeps the last few records, as init's does.
type ring struct {
	mu      sync.Mutex
	keep    int
	records []Record
	next    uint64
	changed chan struct{}
	err     error
}

func newRing(keep int) *ring { return &ring{keep: keep, next: 1, changed: make(chan struct{})} }

func (r *ring) add(origin, level, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.records = append(r.records, Record{Seq: r.next, Uptime: time.Duration(r.next) * time.Second, Origin: origin, Level: level, Text: text})
	r.records = r.records[max(0, len(r.records)-r.keep):]
	r.next++
	close(r.changed)
	r.changed = make(chan struct{})
}

func (r *ring) Read(ctx context.Context, q Query) (Page, error) {
	for {
		page, changed, err := r.page(q)
		if err != nil || len(page.Records) > 0 || !q.Wait {
			return page, err
		}
		select {
		case <-ctx.Done():
			return page, ctx.Err()
		case <-changed:
		}
	}
}

func (r *ring) page(q Query) (Page, chan struct{}, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err != nil {
		return Page{Next: q.From}, nil, r.err
	}
	p := Page{Next: q.From, End: r.next}
	oldest := r.next - uint64(len(r.records))
	if from := max(q.From, 1); from < oldest {
		p.Lost, p.Next = oldest-from, oldest
	}
	for _, rec := range r.records {
		if rec.Seq < p.Next || len(p.Records) >= q.Max {
			continue
		}
		p.Next = rec.Seq + 1
		if len(q.Origins) == 0 || slices.Contains(q.Origins, rec.Origin) {
			p.Records = append(p.Records, rec)
		}
	}
	return p, r.changed, nil
}

// collect follows the ring until it ends, or after n records when n > 0.
func collect(ctx context.Context, logs LogSource, req *clusterv1.LogsRequest, n int) ([]string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var got []string
	f := &follower{logs: logs, query: Query{Origins: req.GetOrigins(), Max: pageSize}, send: func(r *clusterv1.LogRecord) error {
		text := r.GetText()
		if r.GetLost() > 0 {
			text += fmt.Sprintf(" (lost %d)", r.GetLost())
		}
		if got = append(got, text); len(got) == n {
			cancel()
		}
		return nil
	}}
	err := f.run(ctx, req)
	if n > 0 && len(got) == n {
		err = nil
	}
	return got, err
}

func TestLogs(t *testing.T) {
	r := newRing(300)
	for i := range 302 {
		r.add([]string{"join", "netcfg"}[i%2], "info", fmt.Sprint(i))
	}
	for _, tc := range []struct {
		name  string
		req   *clusterv1.LogsRequest
		count int
		first string
		last  string
	}{
		{"all", &clusterv1.LogsRequest{}, 300, "2 (lost 2)", "301"},
		{"origin", &clusterv1.LogsRequest{Origins: []string{"join"}}, 150, "2 (lost 2)", "300"},
		{"tail", &clusterv1.LogsRequest{Tail: 3}, 3, "299", "301"},
		{"long tail", &clusterv1.LogsRequest{Tail: 1 << 40}, 300, "2", "301"},
		{"tail of origin", &clusterv1.LogsRequest{Tail: 2, Origins: []string{"join"}}, 2, "298", "300"},
		{"unknown origin", &clusterv1.LogsRequest{Origins: []string{"nobody"}}, 0, "", ""},
	} {
		got, err := collect(t.Context(), r, tc.req, 0)
		if err != nil || len(got) != tc.count || tc.count > 0 && (got[0] != tc.first || got[len(got)-1] != tc.last) {
			t.Errorf("%s: %d records %.60q, %v", tc.name, len(got), got, err)
		}
	}
}

// A reader that does not follow gets what was there when it asked, however
// fast the log grows.
func TestBacklogEnds(t *testing.T) {
	r := newRing(1000)
	r.add("a", "info", "first")
	grows := sourceFunc(func(ctx context.Context, q Query) (Page, error) {
		p, err := r.Read(ctx, q)
		for range 2 * pageSize {
			r.add("a", "info", "more")
		}
		return p, err
	})
	got, err := collect(t.Context(), grows, &clusterv1.LogsRequest{}, 0)
	if err != nil || len(got) != 1 {
		t.Errorf("%d records, %v", len(got), err)
	}
}

type sourceFunc func(context.Context, Query) (Page, error)

func (f sourceFunc) Read(ctx context.Context, q Query) (Page, error) { return f(ctx, q) }

// A follower slower than the log is told what it missed, at the place where.
func TestSlowFollowerIsToldItsLosses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(10)
		go func() {
			for i := range 50 {
				r.add("a", "info", fmt.Sprint(i))
				time.Sleep(time.Second)
			}
		}()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		seen, lost := 0, uint64(0)
		f := &follower{logs: r, query: Query{Max: 4}, send: func(rec *clusterv1.LogRecord) error {
			seen++
			lost += rec.GetLost()
			time.Sleep(5 * time.Second)
			return nil
		}}
		if err := f.run(ctx, &clusterv1.LogsRequest{Follow: true}); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("ended with %v", err)
		}
		if lost == 0 || seen+int(lost) != 50 {
			t.Errorf("saw %d and was told of %d lost, of 50", seen, lost)
		}
	})
}

func TestFollow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRing(100)
		r.add("a", "info", "old")
		r.add("a", "info", "newer")
		go func() {
			for i := range 3 {
				time.Sleep(time.Hour)
				r.add("a", "info", fmt.Sprint("new ", i))
			}
		}()
		got, err := collect(t.Context(), r, &clusterv1.LogsRequest{Follow: true, Tail: 1}, 4)
		if want := []string{"newer", "new 0", "new 1", "new 2"}; err != nil || !slices.Equal(got, want) {
			t.Errorf("got %q, %v", got, err)
		}
	})
}

// peers are certificates of one cluster.
type peers struct {
	t  *testing.T
	ca *identity.Authority
}

func newPeers(t *testing.T) *peers {
	ca, err := identity.NewAuthority("lab", time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &peers{t, ca}
}

func (p *peers) certificate(role identity.Role, name string) tls.Certificate {
	key, err := identity.NewKey()
	if err != nil {
		p.t.Fatal(err)
	}
	leaf, err := p.ca.Issue(role, name, key.Public(), time.Now(), 0)
	if err != nil {
		p.t.Fatal(err)
	}
	return identity.Certificate(leaf, p.ca.Certificate, key)
}

func (p *peers) client(role identity.Role, address string) clusterv1connect.NodeServiceClient {
	conf := identity.ClientTLS(p.ca.Certificate, p.certificate(role, "x"), identity.Peer{Role: identity.RoleNode, Name: "n1"}, nil)
	transport := &http.Transport{TLSClientConfig: conf, ForceAttemptHTTP2: true}
	p.t.Cleanup(transport.CloseIdleConnections)
	return clusterv1connect.NewNodeServiceClient(&http.Client{Transport: transport}, "https://"+address)
}

// start runs the API of node n1 on loopback until the test ends.
func (p *peers) start(logs LogSource) (address string) { return p.startWith(logs, nil) }

func (p *peers) startWith(logs LogSource, services Services) (address string) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		p.t.Fatal(err)
	}
	s := New(Config{
		TLS:  identity.ServerTLS(p.ca.Certificate, p.certificate(identity.RoleNode, "n1"), nil),
		Logs: logs, Services: services, Log: slog.New(slog.DiscardHandler),
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Serve(ctx, l) }()
	p.t.Cleanup(func() {
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			p.t.Errorf("server ended with %v", err)
		}
	})
	return l.Addr().String()
}

func TestOnlyOperatorsAndControllersRead(t *testing.T) {
	p := newPeers(t)
	r := newRing(10)
	r.add("join", "stage", "joined")
	address := p.start(r)
	for role, code := range map[identity.Role]connect.Code{
		identity.RoleOperator: 0, identity.RoleController: 0, identity.RoleNode: connect.CodePermissionDenied,
	} {
		stream, err := p.client(role, address).Logs(t.Context(), &clusterv1.LogsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		n := 0
		for stream.Receive() {
			n++
			if m := stream.Msg(); m.GetSeq() != 1 || m.GetOrigin() != "join" || m.GetLevel() != "stage" || m.GetText() != "joined" || m.GetUptime().AsDuration() != time.Second {
				t.Errorf("%s got %v", role, m)
			}
		}
		if err := stream.Err(); code == 0 && (err != nil || n != 1) || code != 0 && connect.CodeOf(err) != code {
			t.Errorf("%s: %d records, %v", role, n, err)
		}
		stream.Close()
	}
}

// Readers are bounded, and a place that one leaves is free again.
func TestStreamsAreBounded(t *testing.T) {
	p := newPeers(t)
	r := newRing(10)
	r.add("a", "info", "x")
	address := p.start(r)
	open := func(ctx context.Context) error {
		stream, err := p.client(identity.RoleOperator, address).Logs(ctx, &clusterv1.LogsRequest{Follow: true})
		if err != nil {
			return err
		}
		t.Cleanup(func() { stream.Close() })
		if stream.Receive() {
			return nil
		}
		return stream.Err()
	}
	first, leave := context.WithCancel(t.Context())
	for i := range maxStreams {
		ctx := t.Context()
		if i == 0 {
			ctx = first
		}
		if err := open(ctx); err != nil {
			t.Fatal(err)
		}
	}
	if err := open(t.Context()); connect.CodeOf(err) != connect.CodeResourceExhausted {
		t.Errorf("one more: %v", err)
	}
	leave()
	for { // the server learns of it soon
		err := open(t.Context())
		if err == nil {
			break
		}
		if connect.CodeOf(err) != connect.CodeResourceExhausted {
			t.Fatal(err)
		}
	}
}

func TestSourceErrorReachesTheReader(t *testing.T) {
	p := newPeers(t)
	r := newRing(10)
	r.err = errors.New("control socket closed")
	stream, err := p.client(identity.RoleOperator, p.start(r)).Logs(t.Context(), &clusterv1.LogsRequest{Follow: true})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if stream.Receive() || connect.CodeOf(stream.Err()) != connect.CodeUnavailable || !strings.Contains(stream.Err().Error(), "control socket closed") {
		t.Errorf("got %v", stream.Err())
	}
}

// The address may be taken or missing for a while.
func TestRunWaitsForItsAddress(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := newPeers(t)
	lines := make(chan string, 100)
	r := newRing(10)
	r.add("a", "info", "x")
	s := New(Config{
		Listen: l.Addr().String(),
		TLS:    identity.ServerTLS(p.ca.Certificate, p.certificate(identity.RoleNode, "n1"), nil),
		Logs:   r, Log: slog.New(slog.NewTextHandler(lineWriter(lines), nil)),
	})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	if line := <-lines; !strings.Contains(line, "node API is down, next try in 1s") || !strings.Contains(line, "address already in use") {
		t.Errorf("said %q", line)
	}
	l.Close()
	for !strings.Contains(<-lines, "node API is up") {
	}
	stream, err := p.client(identity.RoleOperator, l.Addr().String()).Logs(ctx, &clusterv1.LogsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.Close()
	if !stream.Receive() {
		t.Error(stream.Err())
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("ended with %v", err)
	}
}

type lineWriter chan string

func (w lineWriter) Write(p []byte) (int, error) {
	w <- string(p)
	return len(p), nil
}
