package monitor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"reveille/boot/service"
	"reveille/internal/synctest"
)

type sight Sight

func (s sight) See() Sight { return Sight(s) }

// watched is a monitor under test and what it has told.
type watched struct {
	*monitor
	mu   sync.Mutex
	told []service.Report
	at   []time.Duration
}

func watch(t Target, ask func(context.Context, service.Probe) answer) *watched {
	w := &watched{}
	began := time.Now()
	if t.Witness == nil {
		t.Witness = sight(runs())
	}
	w.monitor = newMonitor(t, func(r service.Report) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.told, w.at = append(w.told, r), append(w.at, time.Since(began))
	})
	if ask != nil {
		w.asks = ask
	}
	return w
}

func (w *watched) verdicts() (all []service.Verdict) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.told {
		all = append(all, r.Verdict)
	}
	return all
}

func (w *watched) last() (service.Report, time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := len(w.told) - 1
	return w.told[n], w.at[n]
}

func target(alive *service.Probe) Target {
	return Target{Service: service.Service{Name: "vm", Alive: alive}, Ref: service.Ref{Service: "vm", Incarnation: 1}}
}

// timesOut answers as a service does that says nothing within the timeout.
func timesOut(ctx context.Context, p service.Probe) answer {
	sleep(ctx, p.Timeout)
	return answer{kind: unclear, text: "no answer within 1s"}
}

// A service that is 30 s late was in doubt, and never gone.
func TestDelayIsDoubt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		w := watch(target(identity()), func(ctx context.Context, p service.Probe) answer {
			if past := time.Since(began); past > 10*time.Second && past < 40*time.Second {
				return timesOut(ctx, p)
			}
			return listOf("s", one("a", "running", 1))
		})
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		if err := w.run(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Error(err)
		}
		if want := []service.Verdict{service.Alive, service.Unknown, service.Alive}; !slices.Equal(w.verdicts(), want) {
			t.Errorf("told %v", w.told)
		}
	})
}

func TestHangIsGoneByTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := watch(target(identity()), timesOut)
		if err := w.run(t.Context()); err != nil {
			t.Error(err)
		}
		r, at := w.last()
		if r.Verdict != service.Gone || at < 60*time.Second || at > 63*time.Second || r.Why != "not well within 1m0s of its start, the last: no answer within 1s; pid 7 runs" {
			t.Errorf("after %s: %+v", at, r)
		}
	})
}

// Hints without end, and answers that come at once: no hot loop.
func TestHintsDoNotMakeAHotLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		looks := 0
		var w *watched
		w = watch(target(identity()), func(context.Context, service.Probe) answer {
			looks++
			w.hint()
			return listOf("s")
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		_ = w.run(ctx) // ends with ctx
		if looks > 41 {
			t.Errorf("%d looks in 10 s", looks)
		}
	})
}

// A hint shortens the way to a death: that is what a long poll is for.
func TestHintIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := identity()
		p.Interval = time.Hour
		began := time.Now()
		w := watch(target(p), func(context.Context, service.Probe) answer {
			if time.Since(began) < 10*time.Second {
				return listOf("s", one("a", "running", 1))
			}
			return listOf("z")
		})
		go func() {
			time.Sleep(10 * time.Second)
			w.hint()
		}()
		if err := w.run(t.Context()); err != nil {
			t.Error(err)
		}
		if _, at := w.last(); at > 11*time.Second {
			t.Errorf("noticed after %s", at)
		}
	})
}

// What an agent that died knew is what its successor holds the service to.
func TestAdoption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		adopted := target(identity())
		adopted.Before = service.Report{Verdict: service.Alive, Ready: true, Server: "s", Instances: []service.Instance{one("a", "running", 4)}}
		w := watch(adopted, func(context.Context, service.Probe) answer { return listOf("s") })
		if err := w.run(t.Context()); err != nil {
			t.Error(err)
		}
		r, _ := w.last()
		if r.Verdict != service.Gone || r.Why != "asked: it does not know instance a any more" || len(r.Instances) != 1 {
			t.Errorf("%+v", r)
		}

		// A doubt is not forgotten either: a service that hangs does not gain
		// by an agent that dies again and again.
		adopted.Before.Verdict, adopted.Doubt = service.Unknown, 50*time.Second
		w = watch(adopted, timesOut)
		_ = w.run(t.Context()) // by its verdict
		if _, at := w.last(); at > 13*time.Second {
			t.Errorf("the doubt went on for %s more", at)
		}
	})
}

// Without a verdict no monitor ends but with its context.
func TestMonitorThatDiesIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var told []service.Report
		done := make(chan struct{})
		broken := target(&service.Probe{Exec: []string{"/x"}})
		broken.Witness = sight(runs())
		broken.Exec = func(context.Context, []string) (string, error) { runtime.Goexit(); return "", nil }
		go func() {
			defer close(done)
			_ = Watch(t.Context(), broken, func(r service.Report) { told = append(told, r) })
		}()
		<-done
		if r := told[len(told)-1]; r.Verdict != service.Gone || r.Why != "its monitor ended without a verdict" {
			t.Errorf("told %+v", told)
		}
	})
}

func TestExec(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plain()
		p.HTTP, p.Exec = nil, []string{"/bin/check", "-x"}
		began := time.Now()
		probed := target(p)
		probed.Exec = func(_ context.Context, argv []string) (string, error) {
			if !slices.Equal(argv, p.Exec) {
				t.Errorf("ran %q", argv)
			}
			if time.Since(began) < 10500*time.Millisecond {
				return "", nil
			}
			return "exit status 2", nil
		}
		w := watch(probed, nil)
		_ = w.run(t.Context()) // by its verdict
		if r, at := w.last(); at != 13*time.Second || r.Why != "3 looks in a row failed, the last: exec /bin/check: exit status 2; pid 7 runs" {
			t.Errorf("after %s: %+v", at, r)
		}
	})
}

// That the probe could not be run says nothing about the service, so there is
// the deadline for it, and no count.
func TestExecThatCannotBeRun(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := plain()
		p.HTTP, p.Exec, p.Deadline = nil, []string{"/bin/check"}, time.Minute
		began := time.Now()
		probed := target(p)
		probed.Exec = func(context.Context, []string) (string, error) {
			switch since := time.Since(began); {
			case since < 2*time.Second, since > 40*time.Second && since < 50*time.Second:
				return "", nil
			}
			return "", fmt.Errorf("%w: fork: out of memory", ErrUnasked)
		}
		w := watch(probed, nil)
		_ = w.run(t.Context()) // by its verdict
		want := "no clear answer for 1m0s, the last: exec /bin/check: the probe was not run: fork: out of memory; pid 7 runs"
		if r, at := w.last(); at < 110*time.Second || r.Why != want {
			t.Errorf("after %s: %+v", at, r)
		}
	})
}

// hears gives t a notify socket.
func hears(t Target) (Target, chan<- Notice) {
	news := make(chan Notice)
	t.Notices = func(ctx context.Context, _ uint64) (Notice, error) {
		select {
		case n := <-news:
			return n, nil
		case <-ctx.Done():
			return Notice{}, ctx.Err()
		}
	}
	return t, news
}

// One that says something all the time is heard four times a second.
func TestNoticesDoNotMakeAHotLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		chatty := target(&service.Probe{Notify: true, Interval: time.Second})
		chatty.Witness = sight(runs())
		chatty.Notices = func(_ context.Context, after uint64) (Notice, error) {
			asked.Add(1)
			return Notice{Seq: after + 1, Beats: after + 1}, nil
		}
		ctx, end := context.WithTimeout(t.Context(), 10*time.Second)
		defer end()
		w := watch(chatty, nil)
		_ = w.run(ctx) // until it ends
		if r, _ := w.last(); asked.Load() > 41 || r.Verdict != service.Alive {
			t.Errorf("asked %d times in 10 s: %+v", asked.Load(), r)
		}
	})
}

// A service's socket is found as the service itself finds it.
func TestSocketsInARoot(t *testing.T) {
	root := t.TempDir()
	long := strings.Repeat("/a-folder", 15)
	for _, dir := range []string{"run", "var", long} {
		if err := os.MkdirAll(filepath.Join(root, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("/run", filepath.Join(root, "var/run")); err != nil {
		t.Fatal(err)
	}
	t.Chdir(root)
	l, err := net.Listen("unix", "run/x.sock")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Link("run/x.sock", filepath.Join(root, long, "y.sock")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/run/x.sock", "/var/run/x.sock", long + "/y.sock"} {
		conn, err := dialUnder(t.Context(), root, path)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		conn.Close()
	}
	if _, err := dialUnder(t.Context(), root, "/none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a socket that is not there: %v", err)
	}
}

// A service that never says that it is ready may be silent until its first
// WATCHDOG=1.
func TestNotifyAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said, news := hears(target(&service.Probe{Notify: true, Interval: 5 * time.Second, Failures: 1, Deadline: time.Minute}))
		w := watch(said, nil)
		go func() {
			time.Sleep(40 * time.Second)
			news <- Notice{Seq: 1, Beats: 1}
		}()
		_ = w.run(t.Context()) // by its verdict
		if r, at := w.last(); at < 45*time.Second || at > 51*time.Second || r.Why != "1 look in a row failed, the last: sd_notify: no WATCHDOG=1 within 5s; pid 7 runs" {
			t.Errorf("after %s: %+v", at, r)
		}
	})
}

// A service of sd_notify is ready when it says so, and lives as long as it
// goes on saying so.
func TestNotify(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		said, news := hears(target(&service.Probe{Notify: true, Interval: 5 * time.Second, Failures: 1}))
		said.Service.Ready = &service.Probe{Notify: true, Interval: time.Hour, Deadline: 2 * time.Hour}
		w := watch(said, nil)
		go func() {
			time.Sleep(20 * time.Second)
			news <- Notice{Seq: 1, Ready: true}
			for beat := range 5 {
				time.Sleep(3 * time.Second)
				news <- Notice{Seq: 2, Ready: true, Beats: uint64(1 + beat)}
			}
		}()
		_ = w.run(t.Context()) // by its verdict
		var ready time.Duration
		for n, r := range w.told {
			if r.Ready && ready == 0 {
				ready = w.at[n]
			}
		}
		if ready < 20*time.Second || ready > 21*time.Second {
			t.Errorf("ready after %s", ready)
		}
		if r, at := w.last(); at < 40*time.Second || at > 46*time.Second || r.Why != "1 look in a row failed, the last: sd_notify: no WATCHDOG=1 within 5s; pid 7 runs" {
			t.Errorf("after %s: %+v", at, r)
		}
	})
}

func TestNotReadyInTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		late := target(nil)
		late.Age = 50 * time.Second // adopted
		late.Service.Ready = &service.Probe{TCP: "127.0.0.1:1", Interval: time.Second, Timeout: time.Second, Deadline: time.Minute}
		w := watch(late, func(context.Context, service.Probe) answer { return answer{kind: unclear, text: "connection refused"} })
		_ = w.run(t.Context()) // by its verdict
		if r, at := w.last(); r.Verdict != service.Gone || at != 10*time.Second || r.Why != "not ready within 1m0s: connection refused; pid 7 runs" {
			t.Errorf("after %s: %+v", at, r)
		}
	})
}
