package netcfg

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"
)

const (
	// lookAgain is how often the network is read without any event, for what
	// sends none (a sysctl) and for events that were lost. A read of a node's
	// network takes a millisecond.
	lookAgain = time.Minute

	// Retries after an error start short, because most are races with drivers,
	// and stay under a minute, because an operator may be waiting.
	retryFirst = time.Second
	retryMost  = time.Minute
)

// Run keeps the network converged until ctx ends, and then returns nil. It
// reads the network again after every link, address and route event, and each
// minute without one. Every error is logged with what happens next; DHCP clients
// go on meanwhile, and a new lease is taken in at once.
func (r *Reconciler) Run(ctx context.Context) error {
	defer r.useLeases()()
	backoff := retryFirst
	for ctx.Err() == nil {
		err := r.watchOnce(ctx, &backoff)
		if ctx.Err() != nil {
			break
		}
		// Full jitter over the upper half: nodes that lost the same switch
		// must not come back in step.
		pause := backoff/2 + rand.N(backoff/2)
		r.log.Error(fmt.Sprintf("%v, next try in %s", err, pause.Round(100*time.Millisecond)))
		backoff = min(2*backoff, retryMost)
		select {
		case <-time.After(pause):
		case <-r.leases.c:
		case <-ctx.Done():
		}
	}
	return nil
}

// useLeases lets DHCP clients run until the function that it returns is called.
func (r *Reconciler) useLeases() func() {
	r.turn.Lock()
	defer r.turn.Unlock()
	r.leases.users++
	return func() {
		r.turn.Lock()
		defer r.turn.Unlock()
		r.leases.leave()
	}
}

var errEvents = errors.New("the kernel's event stream ended")

// watchOnce converges after each event until an error.
func (r *Reconciler) watchOnce(ctx context.Context, backoff *time.Duration) error {
	ev, err := r.watch()
	if err != nil {
		return err
	}
	defer ev.Close()
	net, err := r.open()
	if err != nil {
		return err
	}
	defer net.Close()
	r.forgetSolicited()
	for {
		var report Report
		_, err := r.passes(ctx, net, &report)
		r.sayOps(report.Ops)
		if err != nil {
			return err
		}
		r.say()
		*backoff = retryFirst
		looked := time.Now()
		timer := time.NewTimer(r.nextLook(looked))
		select {
		case _, ok := <-ev.C():
			if !ok {
				return errEvents
			}
			r.gathered(ctx, looked)
		case <-r.leases.state:
			r.gathered(ctx, looked)
		case <-r.leases.c:
		case <-r.hosts.changed:
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
