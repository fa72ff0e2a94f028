package boot

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"reveille/internal/synctest"
)

// trace collects "origin: message" lines.
type trace struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (t *trace) logger(origin string) *slog.Logger {
	return slog.New(&traceHandler{t, origin})
}

type traceHandler struct {
	*trace
	origin string
}

func (h *traceHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h *traceHandler) WithAttrs([]slog.Attr) slog.Handler       { return h }
func (h *traceHandler) WithGroup(string) slog.Handler            { return h }
func (h *traceHandler) Handle(_ context.Context, r slog.Record) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buf.WriteString(h.origin + ": " + r.Message + "\n")
	return nil
}

func (t *trace) lines() []string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.Split(strings.TrimSpace(t.buf.String()), "\n")
}

func runStages(ctx context.Context, stages []Stage) (*trace, *Tracker, error) {
	tr := &trace{}
	track := NewTracker(stages)
	r := &runner{stages: stages, track: track, logger: tr.logger}
	return tr, track, r.run(ctx)
}

func sleep(d time.Duration) func(*Node, context.Context) error {
	return func(_ *Node, ctx context.Context) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
}

func TestStagesRunInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		tr, track, err := runStages(t.Context(), []Stage{
			{Name: "a", Patience: time.Minute, Run: sleep(time.Second)},
			{Name: "b", Needs: []string{"a"}, Patience: time.Minute, Run: sleep(3 * time.Second)},
			{Name: "c", Needs: []string{"a"}, Patience: time.Minute, Run: sleep(2 * time.Second)},
			{Name: "d", Needs: []string{"b", "c"}, Patience: time.Minute, Run: sleep(time.Second)},
		})
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(begun); took != 5*time.Second {
			t.Errorf("took %s: b and c did not run side by side", took)
		}
		lines := tr.lines()
		if lines[0] != "a: start" || lines[len(lines)-1] != "d: done in 1s" {
			t.Errorf("lines:\n%s", strings.Join(lines, "\n"))
		}
		if stage, reason := track.Now(); stage != "d" || reason != "" {
			t.Errorf("now at %q %q", stage, reason)
		}
	})
}

func TestFailureIsNamedOnceAndThenRepeatedSlowly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun := time.Now()
		tr, _, err := runStages(t.Context(), []Stage{{
			Name: "net", Patience: 10 * time.Second,
			Run: func(*Node, context.Context) error {
				if time.Since(begun) < 95*time.Second {
					return errors.New("no carrier on eth0")
				}
				return nil
			},
		}})
		if err != nil {
			t.Fatal(err)
		}
		var first, waiting int
		for _, line := range tr.lines() {
			switch {
			case strings.HasPrefix(line, "net: no carrier on eth0; next try in "):
				first++
			case strings.HasPrefix(line, "net: waiting ") && strings.Contains(line, "attempt ") && strings.Contains(line, "no carrier on eth0"):
				waiting++
			}
		}
		if first != 1 || waiting < 8 || waiting > 11 {
			t.Errorf("cause named %d times at once and %d times while waiting:\n%s", first, waiting, strings.Join(tr.lines(), "\n"))
		}
	})
}

func TestHeldStageStopsTryingAndKeepsSaying(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		tries := 0
		tr, track, err := runStages(ctx, []Stage{
			{Name: "config", Patience: 10 * time.Second, Run: func(*Node, context.Context) error {
				tries++
				return Held{Err: errors.New("ticket was used"), Remedy: "create a new ticket"}
			}},
			{Name: "join", Needs: []string{"config"}, Run: sleep(0)},
		})
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("run: %v", err)
		}
		if tries != 1 {
			t.Errorf("tried %d times", tries)
		}
		said := 0
		for _, line := range tr.lines() {
			if strings.Contains(line, "held for ") && strings.Contains(line, "ticket was used; create a new ticket") {
				said++
			}
			if strings.HasPrefix(line, "join:") {
				t.Errorf("went on: %s", line)
			}
		}
		if said < 4 || said > 6 {
			t.Errorf("said %d times in 5 minutes", said)
		}
		if stage, reason := track.Now(); stage != "config" || !strings.Contains(reason, "ticket was used") {
			t.Errorf("now at %q %q", stage, reason)
		}
	})
}

// TestLastStageGoesOnSayingWhatIsWrong holds the truth of a steady node.
func TestLastStageGoesOnSayingWhatIsWrong(t *testing.T) {
	wrong := "waiting 42s, attempt 7: 3 of 3 endpoints failed"
	synctest.Test(t, func(t *testing.T) {
		_, track, err := runStages(t.Context(), []Stage{{Name: "steady", Patience: time.Minute, Run: sleep(0)}})
		if err != nil {
			t.Fatal(err)
		}
		track.Explain("steady", func() string { return wrong })
		if stage, reason := track.Now(); stage != "steady" || reason != wrong {
			t.Errorf("now at %q %q", stage, reason)
		}
	})
}

// TestSlowStageSaysWhatItIsAt: also a stage that nothing keeps from its work,
// and of whose steps one takes long.
func TestSlowStageSaysWhatItIsAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &trace{}
		stages := []Stage{{Name: "config", Does: "opening it", Patience: 10 * time.Second}}
		track := NewTracker(stages)
		stages[0].Run = func(n *Node, ctx context.Context) error {
			_ = sleep(15*time.Second)(n, ctx)
			track.Does("config", "writing it")
			return sleep(10*time.Second)(n, ctx)
		}
		r := &runner{stages: stages, track: track, logger: tr.logger}
		if err := r.run(t.Context()); err != nil {
			t.Fatal(err)
		}
		want := []string{"config: start", "config: waiting 10s: still opening it", "config: waiting 20s: still writing it", "config: done in 25s"}
		if got := tr.lines(); !slices.Equal(got, want) {
			t.Errorf("%q", got)
		}
	})
}

// TestTableIsSound holds the real table: every need is an earlier row.
func TestTableIsSound(t *testing.T) {
	seen := map[string]bool{}
	for _, s := range Stages {
		for _, need := range s.Needs {
			if !seen[need] {
				t.Errorf("%s needs %s, which is no earlier stage", s.Name, need)
			}
		}
		if s.Patience <= 0 || s.Does == "" || s.Run == nil {
			t.Errorf("%s is not complete", s.Name)
		}
		seen[s.Name] = true
	}
}
