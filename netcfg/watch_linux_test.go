package netcfg

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// watched is a Reconciler that runs on the kernel, and what it did.
type watched struct {
	*Reconciler
	t   *testing.T
	lab kernelLab
	ctx context.Context

	ns    int             // our network namespace
	agent context.Context // ends with the agent of now
	end   func()
	again chan life

	mu  sync.Mutex
	ops []string
	new chan struct{} // closed at the next operation
}

// life is one agent's.
type life struct {
	*Reconciler
	agent context.Context
}

// watch runs what happens beside a Reconciler of wish, in a namespace of the
// test's own. Run stays on this thread, which is in it; the lab's socket is in
// it wherever it is used.
func watch(t *testing.T, wish string, happens func(*watched) error) {
	t.Helper()
	watchFor(t, time.Minute, wish, happens)
}

func watchFor(t *testing.T, patience time.Duration, wish string, happens func(*watched) error) {
	t.Helper()
	watchAll(t, patience, wish, Options{}, happens)
}

func watchWith(t *testing.T, wish string, opt Options, happens func(*watched) error) {
	t.Helper()
	watchAll(t, time.Minute, wish, opt, happens)
}

func watchAll(t *testing.T, patience time.Duration, wish string, opt Options, happens func(*watched) error) {
	t.Helper()
	w := &watched{t: t, lab: newKernelLab(t).(kernelLab), new: make(chan struct{}), again: make(chan life, 1)}
	ns, err := unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(ns)
	w.ns = ns
	w.make(wish, opt)
	ctx, stop := context.WithTimeout(t.Context(), patience)
	defer stop()
	w.ctx = ctx
	done := make(chan error, 1)
	go func() {
		defer stop()
		done <- happens(w)
	}()
	w.runAll(ctx)
	if err := <-done; err != nil {
		t.Errorf("%v; it did:\n%s\nand has %+v", err, strings.Join(w.ops, "\n"), w.Status())
	}
}

func (w *watched) make(wish string, opt Options) {
	also := opt.Applied
	opt.Applied = func(op Op) {
		if also != nil {
			also(op)
		}
		w.applied(op)
	}
	w.Reconciler = New(compileWish(w.t, wish), slog.New(slog.NewTextHandler(w.t.Output(), nil)), opt)
	w.agent, w.end = context.WithCancel(w.t.Context())
}

// runAll runs one agent after the other until ctx ends.
func (w *watched) runAll(ctx context.Context) {
	r, agent := w.Reconciler, w.agent
	for {
		life, stop := context.WithCancel(ctx)
		context.AfterFunc(agent, stop)
		if err := r.Run(life); err != nil {
			w.t.Error(err)
		}
		stop()
		select {
		case next := <-w.again:
			r, agent = next.Reconciler, next.agent
		case <-ctx.Done():
			return
		}
	}
}

// restart ends the agent and begins another, which knows nothing.
func (w *watched) restart(wish string, opt Options) error {
	end := w.end
	w.make(wish, opt)
	w.again <- life{w.Reconciler, w.agent}
	end()
	return nil
}

func (w *watched) applied(op Op) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ops = append(w.ops, op.String())
	close(w.new)
	w.new = make(chan struct{})
}

// does changes the network as somebody else.
func (w *watched) does(ops ...Op) error {
	if _, err := w.lab.Observe(w.ctx); err != nil {
		return err
	}
	for _, op := range ops {
		if err := w.lab.Apply(w.ctx, op); err != nil {
			return err
		}
	}
	return nil
}

// until waits for n operations in all that begin so, and for the end of the
// pass they were in.
func (w *watched) until(n int, op string) error {
	for {
		w.mu.Lock()
		done, changed := 0, w.new
		for _, o := range w.ops {
			if strings.HasPrefix(o, op) {
				done++
			}
		}
		w.mu.Unlock()
		if done >= n {
			return w.WaitFor(w.ctx, func(s Status) bool { return s.Converged && s.Ready() })
		}
		select {
		case <-changed:
		case <-w.ctx.Done():
			return fmt.Errorf("wait for %q: %w", op, w.ctx.Err())
		}
	}
}

func first(errs ...func() error) error {
	for _, f := range errs {
		if err := f(); err != nil {
			return err
		}
	}
	return nil
}

// Run notices a NIC that is plugged in, one that was taken down, an address
// that was removed, a NIC that went and came back as another device, and one
// that somebody renamed.
func TestKernelEvents(t *testing.T) {
	const mac = "02:00:00:00:00:00"
	watch(t, `ethernets: {lan: {match: {macaddress: "`+mac+`"}, set-name: lan, addresses: [10.9.0.1/24]}}`, func(w *watched) error {
		return first(
			func() error { return w.WaitFor(w.ctx, func(s Status) bool { return len(s.Waits) == 1 }) },
			func() error { return w.lab.AddNIC("eth0", mac) },
			func() error { return w.until(1, "add address") },
			func() error { return w.does(downOp("lan")) },
			func() error { return w.until(2, "bring lan up") },
			func() error { return w.does(delAddr("lan", "10.9.0.1/24")) },
			func() error { return w.until(2, "add address") },
			func() error { return w.does(downOp("lan"), rename("lan", "stray"), up("stray")) },
			func() error { return w.until(2, "rename") },
			func() error { return w.does(Op{Verb: OpDelete, Link: "lan"}) },
			func() error { return w.WaitFor(w.ctx, func(s Status) bool { return len(s.Waits) == 1 }) },
			func() error { return w.lab.AddNIC("eth0", mac) },
			func() error { return w.until(3, "add address") },
		)
	})
}

// A carrier that goes is named, and what its return brings is taken in.
func TestKernelCarrier(t *testing.T) {
	watch(t, `ethernets: {eth0: {addresses: [10.9.0.1/24, "fd00:9::1/64"]}}`, func(w *watched) error {
		ready := func() error {
			return w.WaitFor(w.ctx, func(s Status) bool { return s.Converged && len(s.Waits) == 0 && len(s.Addresses) == 2 })
		}
		return first(
			func() error { return w.lab.AddNIC("eth0", "02:00:00:00:00:00") },
			ready,
			func() error { return w.does(downOp("peer-eth0")) },
			func() error {
				return w.WaitFor(w.ctx, func(s Status) bool {
					return !s.Ready() && len(s.Links) == 1 && s.Links[0].Problem == "no carrier"
				})
			},
			func() error { return w.does(up("peer-eth0")) },
			ready,
		)
	})
}

func delAddr(link, prefix string) Op {
	op := addr(link, prefix)
	op.Verb = OpDeleteAddress
	return op
}
