package pid1

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"reveille/boot/proc"
)

// fakePort is a console that takes everything.
type fakePort struct {
	mu sync.Mutex
	b  strings.Builder
}

func (p *fakePort) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.Write(b)
}

func (p *fakePort) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.b.String()
}

func (*fakePort) Queued() (int, error) { return 0, nil }
func (*fakePort) Flush() error         { return nil }
func (*fakePort) Close() error         { return nil }

// TestStopOrder ends an agent and a service that obey and ones that do not:
// the agent before the services, each with its own grace, nobody twice.
func TestStopOrder(t *testing.T) {
	for _, c := range []struct {
		name    string
		agent   string // script
		service string
		least   time.Duration
		most    time.Duration
		killed  []string
	}{
		{"all obey", "sleep 30", "sleep 30", 0, time.Second, nil},
		{"agent is deaf", "trap '' TERM; echo ready; while :; do sleep 1; done", "sleep 30", agentGrace, agentGrace + time.Second, []string{"agent"}},
		{"both are deaf", "trap '' TERM; echo ready; while :; do sleep 1; done", "trap '' TERM; echo ready; while :; do sleep 1; done",
			agentGrace + termGrace, agentGrace + termGrace + time.Second, []string{"agent", "svc"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			i, ctx := newTestInit(t, "")
			for name, script := range map[string]string{"agent": c.agent, "svc": c.service} {
				out := proc.Output{Stdout: i.lines(name), Stderr: i.lines(name)}
				if _, err := i.table.Start(t.Context(), shell(name, script), out); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(script, "ready") {
					awaitOrigin(t, ctx, i, name)
				}
			}
			begun := time.Now()
			var killed []string
			i.stopProcesses(func() {
				for _, p := range i.table.List() {
					if p.Running() {
						killed = append(killed, p.Name)
					}
				}
				killOurs(i)
			})
			if took := time.Since(begun); took < c.least || took > c.most {
				t.Errorf("took %s, want %s to %s", took, c.least, c.most)
			}
			if !slices.Equal(killed, c.killed) {
				t.Errorf("killed %v, want %v", killed, c.killed)
			}
			rows := i.table.List() // agent, svc
			if rows[0].Exit == nil || rows[1].Exit == nil {
				t.Fatalf("not ended: %+v", rows)
			}
			if rows[0].Exit.At > rows[1].Exit.At && c.killed == nil {
				t.Errorf("the service ended at %s, before the agent at %s", rows[1].Exit.At, rows[0].Exit.At)
			}
		})
	}
}

func awaitOrigin(t *testing.T, ctx context.Context, i *Init, origin string) {
	t.Helper()
	page, err := i.readLog(ctx, proc.LogQuery{From: 1, Origins: []string{origin}, Max: 1, Wait: true})
	if err != nil || len(page.Records) == 0 {
		t.Fatalf("nothing of %s: %v", origin, err)
	}
}

// TestWithinIsBounded: a disk that hangs is not waited for.
func TestWithinIsBounded(t *testing.T) {
	hang := make(chan struct{})
	defer close(hang)
	begun := time.Now()
	within(50*time.Millisecond, func() { <-hang })
	if took := time.Since(begun); took > 5*time.Second {
		t.Errorf("waited %s", took)
	}
}
