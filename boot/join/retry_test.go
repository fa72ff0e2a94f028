package join

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"reveille/boot/cluster/clusterv1"
	"reveille/internal/synctest"
)

// The line is the promise to whoever stands before the machine: the cause at
// once, and never older than 30 s.
func TestWaitingIsVisible(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newCA(t)
		network := newFakeNetwork()
		network.set("[fd00::10]:7443", refuses(syscall.EHOSTUNREACH))
		network.set(c1, refuses(syscall.ECONNREFUSED))
		c, log := client(t, network, "[fd00::10]:7443", c1)
		c.retries.int64n = func(n int64) int64 { return n - 1 } // the longest delays
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := c.Join(ctx, member(t, ca))
			done <- err
		}()

		synctest.Wait()
		if got, want := c.Waiting(), "waiting 1s, attempt 1: no answer yet; trying now"; got != want {
			t.Errorf("before the first attempt: %q, want %q", got, want)
		}
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("join ended with %v", err)
		}
		if got := c.Waiting(); got != "" {
			t.Errorf("waits after the end: %q", got)
		}
		const cause = "2 of 2 endpoints failed: 127.0.0.1:1 connect: connection refused, [fd00::10]:7443 connect: no route to host"
		got := strings.Join(log.take(), "\n")
		want := strings.ReplaceAll(strings.TrimSpace(`
WARN waiting 1s, attempt 1: CAUSE; next try in 2s
WARN waiting 16s, attempt 4: CAUSE; next try in 15s
WARN waiting 31s, attempt 5: CAUSE; next try in 30s
WARN waiting 46s, attempt 5: CAUSE; next try in 15s
WARN waiting 1m1s, attempt 6: CAUSE; next try in 30s
WARN waiting 1m16s, attempt 6: CAUSE; next try in 15s
WARN waiting 1m31s, attempt 7: CAUSE; next try in 30s
WARN waiting 1m46s, attempt 7: CAUSE; next try in 15s`), "CAUSE", cause)
		if got != want {
			t.Errorf("log:\n%s\nwant:\n%s", got, want)
		}
	})
}

// Where somebody else repeats what is awaited, only news is logged.
func TestShownWaitingIsNotRepeated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newCA(t)
		c, log := client(t, newFakeNetwork(), c1)
		c.shown = true
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		c.Join(ctx, member(t, ca))
		if got := log.take(); len(got) != 1 {
			t.Errorf("log %q", got)
		}
	})
}

// A new cause is not held back by the pace of the old one.
func TestNewCauseIsShownAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := new(logText)
		w := startWait(slog.New(log), true)
		defer w.stop()
		w.trying()
		w.failed(errors.New("a"), time.Second)
		w.failed(errors.New("a"), time.Second)
		w.failed(errors.New("b"), time.Second)
		w.failed(errors.New("a"), time.Second)
		w.failed(&Unreachable{2, []*Failure{{Endpoint: "x:1", Err: errors.New("b")}, {Endpoint: "y:1", Err: errors.New("c")}}}, time.Second)
		w.failed(&Unreachable{2, []*Failure{{Endpoint: "y:1", Err: errors.New("c")}, {Endpoint: "x:1", Err: errors.New("b")}}}, time.Second)
		if got := len(log.take()); got != 3 {
			t.Errorf("%d lines, want one for each of 3 news", got)
		}
		for i := range 2 * maxShown {
			w.failed(fmt.Errorf("cause %d", i), time.Second)
		}
		if len(w.shown) > maxShown {
			t.Errorf("remembers %d causes", len(w.shown))
		}
	})
}

// An endpoint that accepts and never answers must not make the wait silent.
func TestBlackholeIsNamedBeforeItFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newCA(t)
		network := newFakeNetwork()
		network.set(c1, acceptsOnly)
		c, log := client(t, network, c1)
		c.retries.int64n = func(int64) int64 { return 1 }
		ctx, cancel := context.WithTimeout(t.Context(), 26*time.Second)
		defer cancel()
		c.Join(ctx, member(t, ca))
		got := log.take()
		if len(got) < 2 || !strings.HasPrefix(got[0], "WARN waiting 10s, attempt 1: ") {
			t.Errorf("log %q", got)
		}
		if !slices.ContainsFunc(got, func(l string) bool { return strings.Contains(l, "127.0.0.1:1 TLS: no answer within 10s") }) {
			t.Errorf("no cause in %q", got)
		}
	})
}

// 200 clients that lost their controller in the same moment: no second sees
// three times as many attempts as the average one.
func TestNoThunderingHerd(t *testing.T) {
	const clients = 200
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var at []time.Duration
		begun := time.Now()
		network := newFakeNetwork()
		network.set(c1, func(context.Context) (net.Conn, error) {
			mu.Lock()
			defer mu.Unlock()
			at = append(at, time.Since(begun))
			return nil, connectError(syscall.ECONNREFUSED)
		})
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
		defer cancel()
		ca := newCA(t)
		m := member(t, ca)
		var all sync.WaitGroup
		for i := range clients {
			c, err := New(Config{Endpoints: []string{c1}, Log: slog.New(slog.DiscardHandler), Network: network})
			if err != nil {
				t.Fatal(err)
			}
			c.retries.int64n = rand.New(rand.NewPCG(1, uint64(i))).Int64N
			all.Go(func() { c.Join(ctx, m) })
		}
		all.Wait()

		// The first attempts, by tenths of a second; then the long wait, by seconds.
		for _, window := range []struct {
			from, to, bin time.Duration
		}{
			{0, time.Second, 100 * time.Millisecond},
			{30 * time.Second, 5 * time.Minute, time.Second},
		} {
			bins := make([]int, (window.to-window.from)/window.bin)
			total := 0
			for _, d := range at {
				if d >= window.from && d < window.to {
					bins[(d-window.from)/window.bin]++
					total++
				}
			}
			mean := float64(total) / float64(len(bins))
			ratio := float64(slices.Max(bins)) / mean
			t.Logf("%s to %s: %d attempts, mean %.1f, peak %d in %s, ratio %.2f",
				window.from, window.to, total, mean, slices.Max(bins), window.bin, ratio)
			if ratio >= 3 {
				t.Errorf("%s to %s: peak/mean is %.2f, want under 3", window.from, window.to, ratio)
			}
		}
	})
}

func TestBackoffGrowsAndIsCapped(t *testing.T) {
	b := backoff{int64n: func(n int64) int64 { return n }}
	var got []time.Duration
	for range 8 {
		got = append(got, b.next())
	}
	s := time.Second
	if want := []time.Duration{s, 2 * s, 4 * s, 8 * s, 16 * s, 30 * s, 30 * s, 30 * s}; !slices.Equal(got, want) {
		t.Errorf("ceilings %v, want %v", got, want)
	}
	b.reset()
	if got := b.next(); got != s {
		t.Errorf("after a reset %s, want %s", got, s)
	}
}

func TestClampTime(t *testing.T) {
	at := func(year int) time.Time {
		if year == 0 {
			return time.Time{}
		}
		return time.Date(year, 6, 1, 0, 0, 0, 0, time.UTC)
	}
	for _, tc := range []struct {
		name                              string
		now, build, sealed, cluster, want int
	}{
		{"cluster knows", 2011, 2026, 2027, 2028, 2028},
		{"local clock runs ahead", 2040, 2026, 2027, 2028, 2028},
		{"cluster is before the last seal", 2011, 2026, 2027, 2020, 2027},
		{"cluster is before the build", 2011, 2026, 0, 2020, 2026},
		{"no cluster, dead battery", 1970, 2026, 2027, 0, 2027},
		{"no cluster, never sealed", 1970, 2026, 0, 0, 2026},
		{"no cluster, good clock", 2028, 2026, 2027, 0, 2028},
	} {
		if got := ClampTime(at(tc.now), at(tc.build), at(tc.sealed), at(tc.cluster)); !got.Equal(at(tc.want)) {
			t.Errorf("%s: got %s, want %d", tc.name, got, tc.want)
		}
	}
}

// The text a console shows: each cause once, an example each, bounded.
func TestUnreachableText(t *testing.T) {
	fail := func(endpoint string, step Step, text string) *Failure {
		return &Failure{Endpoint: endpoint, Step: step, Err: errors.New(text)}
	}
	for want, e := range map[string]*Unreachable{
		"1 of 1 endpoints failed: a:1 connect: no route to host": {1, []*Failure{fail("a:1", StepConnect, "no route to host")}},
		"3 of 3 endpoints failed: a:1 (and 2 more) connect: refused": {3, []*Failure{
			fail("a:1", StepConnect, "refused"), fail("b:1", StepConnect, "refused"), fail("c:1", StepConnect, "refused"),
		}},
		"5 of 5 endpoints failed: d:1 join: unavailable, c:1 TLS: bad pin, b:1 connect: refused, 2 more causes": {5, []*Failure{
			fail("a:1", StepLookup, "no such host"), fail("b:1", StepConnect, "refused"), fail("c:1", StepTLS, "bad pin"),
			fail("d:1", StepCall, "join: unavailable"), fail("e:1", StepLookup, "timeout"),
		}},
	} {
		if got := e.Error(); got != want {
			t.Errorf("got  %q\nwant %q", got, want)
		}
	}
}

func TestPlainText(t *testing.T) {
	for in, want := range map[string]string{
		"two\nlines\tand \x1b[31mcolour": "two lines and  [31mcolour",
		strings.Repeat("é", maxText):     strings.Repeat("é", maxText/2) + "..",
	} {
		if got := plain(in); got != want {
			t.Errorf("plain(%q) = %q", in, got)
		}
	}
}

func TestRefusedText(t *testing.T) {
	r := &Refused{"enrol", c1, clusterv1.RefusalKind_REFUSAL_KIND_TICKET_EXPIRED, "ticket expired an hour ago", "make a new one"}
	if got, want := r.Error(), "enrol: refused by 127.0.0.1:1: ticket expired an hour ago; make a new one"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
