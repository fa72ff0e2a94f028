package join

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"connectrpc.com/connect"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/identity"
	"reveille/internal/synctest"
)

const c1, c2 = "127.0.0.1:1", "127.0.0.1:2"

// lab is a node with its controllers, in a bubble of fake time.
type lab struct {
	t       *testing.T
	ca      *identity.Authority
	network *fakeNetwork
	ctl     *controller
	client  *Client
	log     *logText
}

func inLab(t *testing.T, test func(*testing.T, *lab)) {
	synctest.Test(t, func(t *testing.T) {
		l := &lab{t: t, ca: newCA(t), network: newFakeNetwork()}
		l.ctl = newController(l.ca)
		stop := l.start(c1)
		defer func() { stop() }()
		l.client, l.log = client(t, l.network, c1)
		l.client.retries.int64n = func(n int64) int64 { return n / 10 } // time must pass, or a bubble spins
		test(t, l)
	})
}

// start serves the controller at an address; the returned function ends it.
func (l *lab) start(address string) (stop func()) {
	pipe := newPipeListener()
	srv := l.ctl.serve(l.t, pipe)
	l.network.set(address, pipe.dial)
	return func() {
		srv.Close()
		l.network.set(address, refuses(syscall.ECONNREFUSED))
	}
}

// join joins and starts Run, which end ends.
func (l *lab) join(m Member) (ms *Membership, end func() error) {
	ms, err := l.client.Join(l.t.Context(), m)
	if err != nil {
		l.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(l.t.Context())
	done := make(chan error, 1)
	go func() { done <- ms.Run(ctx) }()
	return ms, func() error {
		cancel()
		return <-done
	}
}

func (l *lab) expect(what string, want ...string) {
	l.t.Helper()
	synctest.Wait()
	if got := l.ctl.booked(); !slices.Equal(got, want) {
		l.t.Errorf("%s: calls %q, want %q", what, got, want)
	}
}

func TestHeartbeats(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		stage := "join"
		m := member(t, l.ca)
		m.Status = func() *clusterv1.NodeStatus { return &clusterv1.NodeStatus{Stage: stage} }
		ms, end := l.join(m)
		l.expect("at once", "join")
		time.Sleep(25 * time.Second)
		l.expect("after 2.5 intervals", "heartbeat join", "heartbeat join")

		stage = "steady"
		for range 5 {
			ms.Kick()
		}
		l.expect("after a change", "heartbeat steady")
		l.ctl.mu.Lock()
		l.ctl.interval = time.Hour // more than we let anybody ask for
		l.ctl.mu.Unlock()
		time.Sleep(10 * time.Second)
		l.ctl.booked()
		time.Sleep(maxInterval + time.Second)
		l.expect("at the longest interval", "heartbeat steady")
		if err := end(); !errors.Is(err, context.Canceled) {
			t.Errorf("run ended with %v", err)
		}
	})
}

// A status that flaps is told at most once a second.
func TestKicksAreSpaced(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		ms, end := l.join(member(t, l.ca))
		defer end()
		for range 100 {
			ms.Kick()
			time.Sleep(50 * time.Millisecond)
		}
		synctest.Wait()
		if n := len(l.ctl.booked()); n > 7 {
			t.Errorf("%d calls in 5 s", n)
		}
	})
}

func TestClusterTimeGoesOn(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.ctl.now = time.Date(2031, 1, 1, 0, 0, 0, 0, time.UTC)
		l.ctl.interval = maxInterval
		ms, end := l.join(member(t, l.ca))
		defer end()
		time.Sleep(90 * time.Second)
		if got, want := ms.ClusterTime(), l.ctl.now.Add(90*time.Second); !got.Equal(want) {
			t.Errorf("cluster time %s, want %s", got, want)
		}
	})
}

// A controller that goes away is replaced by another of the directory, and
// both sides end up where they were.
func TestLostControllerIsReplaced(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.ctl.dir = signedDirectory(l.ca, 2, c1, c2)
		defer l.start(c2)()
		_, end := l.join(member(t, l.ca))
		defer end()
		l.expect("at first", "join")

		l.network.set(c1, refuses(syscall.ECONNREFUSED))
		l.ctl.fail("heartbeat", connect.NewError(connect.CodeUnavailable, errors.New("etcd has no leader")))
		time.Sleep(11 * time.Second)
		synctest.Wait()
		l.ctl.fail("heartbeat", nil)
		got := strings.Join(l.log.take(), "\n")
		if !strings.Contains(got, "WARN lost controller "+c1+": heartbeat: unavailable: etcd has no leader; joining again") {
			t.Errorf("log:\n%s", got)
		}
		if !strings.Contains(got, "INFO joined through "+c2) {
			t.Errorf("log:\n%s", got)
		}
		l.ctl.booked()
		time.Sleep(10 * time.Second)
		l.expect("afterwards", "heartbeat join")
	})
}

// A controller that restarts with an empty memory hears of this boot again.
func TestUnknownBootJoinsAgain(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		_, end := l.join(member(t, l.ca))
		defer end()
		l.expect("at first", "join")
		l.ctl.mu.Lock()
		clear(l.ctl.boots)
		l.ctl.mu.Unlock()
		time.Sleep(11 * time.Second)
		l.expect("when forgotten", "heartbeat join", "join")
		time.Sleep(10 * time.Second)
		l.expect("afterwards", "heartbeat join")
	})
}

// A controller that comes late, and one that does not answer requests.
func TestJoinWaitsForTheController(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.network.set(c1, refuses(syscall.ENETUNREACH))
		time.AfterFunc(time.Minute, func() { l.start(c1) })
		begun := time.Now()
		_, end := l.join(member(t, l.ca))
		defer end()
		if took := time.Since(begun); took < time.Minute || took > time.Minute+lastCeiling {
			t.Errorf("joined after %s", took)
		}
	})
}

func TestSilentControllerIsLeft(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.ctl.hang = true
		c, log := client(t, l.network, c1, c2)
		c.retries.int64n = l.client.retries.int64n
		other := newController(l.ca)
		pipe := newPipeListener()
		defer other.serve(t, pipe).Close()
		l.network.set(c2, func(ctx context.Context) (net.Conn, error) { // slower, so it never wins the race
			if err := sleep(ctx, time.Second); err != nil {
				return nil, err
			}
			return pipe.dial(ctx)
		})
		begun := time.Now()
		ms, err := c.Join(t.Context(), member(t, l.ca))
		if err != nil {
			t.Fatal(err)
		}
		ms.session.close()
		if took := time.Since(begun); took > callTimeout+2*time.Second || ms.session.endpoint != c2 {
			t.Errorf("joined through %s after %s", ms.session.endpoint, took)
		}
		got := strings.Join(log.take(), "\n")
		for _, want := range []string{
			"WARN waiting 10s, attempt 1: no answer yet; trying now\n",
			"WARN " + c1 + " join: no answer within 15s; going on with " + c2 + "\n",
		} {
			if !strings.Contains(got, want) {
				t.Errorf("log:\n%s\nwant %s", got, want)
			}
		}
		for range 20 {
			if order := c.endpoints(); order[0] != c2 {
				t.Fatalf("the silent one is not the last of %v", order)
			}
		}
	})
}

func TestRemovedNodeStops(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := member(t, l.ca)
		ms, err := l.client.Join(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		l.ctl.fail("heartbeat", identity.Refuse(connect.CodePermissionDenied,
			clusterv1.RefusalKind_REFUSAL_KIND_NODE_REMOVED, "node n1 was removed", "enrol it again with a new ticket"))
		var refused *Refused
		if err := ms.Run(t.Context()); !errors.As(err, &refused) || refused.Kind != clusterv1.RefusalKind_REFUSAL_KIND_NODE_REMOVED {
			t.Fatalf("run ended with %v", err)
		}
		want := "heartbeat: refused by " + c1 + ": node n1 was removed; enrol it again with a new ticket"
		if refused.Error() != want {
			t.Errorf("got %q, want %q", refused, want)
		}
		// Run again, as a supervisor might: it asks again and gets the same.
		l.ctl.fail("join", l.ctl.err["heartbeat"])
		if err := ms.Run(t.Context()); !errors.As(err, &refused) {
			t.Errorf("second run ended with %v", err)
		}
	})
}

func TestDirectories(t *testing.T) {
	stranger := func(*lab) *clusterv1.SignedDirectory { return signedDirectory(newCA(t), 9, c2) }
	for _, tc := range []struct {
		name string
		dir  func(*lab) *clusterv1.SignedDirectory
		kept bool
		log  string // of the one line about it; empty for none
	}{
		{"newer", func(l *lab) *clusterv1.SignedDirectory { return signedDirectory(l.ca, 7, c1, c2) }, true,
			"INFO directory generation 7: 1 controllers"},
		{"same", func(l *lab) *clusterv1.SignedDirectory { return signedDirectory(l.ca, 1, c2) }, false, ""},
		{"older", func(l *lab) *clusterv1.SignedDirectory { return signedDirectory(l.ca, 0, c2) }, false, ""},
		{"none", func(*lab) *clusterv1.SignedDirectory { return nil }, false,
			"WARN directory not taken over, keeping generation 1 err=verify directory: directory is empty"},
		{"empty", func(l *lab) *clusterv1.SignedDirectory { return signedDirectory(l.ca, 9) }, false,
			"WARN directory not taken over, keeping generation 1 err=verify directory: directory is empty"},
		{"no valid address", func(l *lab) *clusterv1.SignedDirectory { return signedDirectory(l.ca, 9, "0.0.0.0:0") }, false,
			`WARN directory not taken over, keeping generation 1 err=verify directory: directory has no valid address: check address "0.0.0.0:0": want a port of 1 to 65535`},
		{"of strangers", stranger, false,
			"WARN directory not taken over, keeping generation 1 err=verify directory: directory is not signed by our CA"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			inLab(t, func(t *testing.T, l *lab) {
				l.ctl.dir = tc.dir(l)
				var kept []uint64
				m := member(t, l.ca)
				m.KeepDirectory = func(_ context.Context, d *clusterv1.SignedDirectory) error {
					dir, err := identity.VerifyDirectory(d, l.ca.Certificate)
					kept = append(kept, dir.GetGeneration())
					return err
				}
				_, end := l.join(m)
				time.Sleep(time.Minute) // several heartbeats: said once, kept once
				end()
				if (len(kept) == 1) != tc.kept {
					t.Errorf("kept %v", kept)
				}
				var said []string
				for _, line := range l.log.take() {
					if strings.Contains(line, "directory") {
						said = append(said, line)
					}
				}
				if strings.Join(said, "\n") != tc.log {
					t.Errorf("log %q, want %q", said, tc.log)
				}
			})
		})
	}
}

// A directory that could not be kept is used, and offered again.
func TestDirectoryIsOfferedUntilKept(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		l.ctl.dir = signedDirectory(l.ca, 2, c2)
		m := member(t, l.ca)
		tries := 0
		m.KeepDirectory = func(context.Context, *clusterv1.SignedDirectory) error {
			if tries++; tries < 3 {
				return errors.New("disk is gone")
			}
			return nil
		}
		ms, end := l.join(m)
		time.Sleep(time.Minute)
		end()
		if tries != 3 || ms.generation != 2 {
			t.Errorf("offered %d times, generation %d", tries, ms.generation)
		}
		if got := l.client.endpoints(); !slices.Contains(got, c1) || !slices.Contains(got, c2) {
			t.Errorf("endpoints %v", got)
		}
	})
}

// A sealed config whose directory does not verify still leaves the endpoints
// of the node parameters.
func TestBadKeptDirectoryIsSaid(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		m := member(t, l.ca)
		m.Directory.Signature[5] ^= 1
		_, end := l.join(m)
		end()
		want := "WARN kept directory is not usable, going by the node parameters err=verify directory: directory is not signed by our CA"
		if got := l.log.take(); !slices.Contains(got, want) {
			t.Errorf("log %q", got)
		}
	})
}

// The other way round: a node whose clock is dead says both times.
func TestWrongClockShowsBothTimes(t *testing.T) {
	inLab(t, func(t *testing.T, l *lab) {
		now := time.Date(2011, 11, 11, 11, 11, 11, 0, time.UTC)
		for _, known := range []bool{true, false} {
			l.client.retries.reset()
			l.client.clock = func() (time.Time, bool) { return now, known }
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			ms, err := l.client.Join(ctx, member(t, l.ca))
			cancel()
			if known == (err == nil) {
				t.Errorf("clock known %v: %v", known, err)
			}
			if ms != nil {
				ms.session.close()
			}
			want := "local time is 2011-11-11T11:11:11Z: check the clock"
			if got := fmt.Sprint(l.log.take()); strings.Contains(got, want) != known {
				t.Errorf("clock known %v: log %s", known, got)
			}
		}
	})
}
