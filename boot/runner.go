package boot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"
)

// Held wraps an error that trying again cannot change: the stage stops and
// waits for an operator.
type Held struct {
	Err    error
	Remedy string // what the operator can do
}

func (h Held) Error() string {
	if h.Remedy == "" {
		return h.Err.Error()
	}
	return h.Err.Error() + "; " + h.Remedy
}

func (h Held) Unwrap() error { return h.Err }

const (
	// The first retry is quick, because most causes are a device or a peer
	// that appears a moment later; the cap keeps a rack of nodes from
	// hammering what is down, and an operator from waiting minutes after
	// the cure.
	firstRetry = 500 * time.Millisecond
	lastRetry  = 15 * time.Second
	// repeatWaiting is the promise to operators: anything awaited longer is named.
	repeatWaiting = 10 * time.Second
	// repeatHeld is how often a node that waits for an operator says so.
	repeatHeld = time.Minute
)

// runner runs a table of stages over one node.
type runner struct {
	stages []Stage
	node   *Node
	track  *Tracker
	logger func(origin string) *slog.Logger
}

// run returns when every stage is done, or ctx ends.
func (r *runner) run(ctx context.Context) error {
	done := make(map[string]chan struct{}, len(r.stages))
	for _, s := range r.stages {
		done[s.Name] = make(chan struct{})
	}
	var all sync.WaitGroup
	for _, s := range r.stages {
		all.Go(func() {
			for _, need := range s.Needs {
				select {
				case <-ctx.Done():
					return
				case <-done[need]:
				}
			}
			if r.one(ctx, s) == nil {
				close(done[s.Name])
			}
		})
	}
	all.Wait()
	return ctx.Err()
}

// one runs a stage until it is done; its only error is the end of ctx.
func (r *runner) one(ctx context.Context, s Stage) error {
	log := r.logger(s.Name)
	begun := time.Now()
	r.track.begin(s.Name)
	log.Log(ctx, levelStage, "start")

	reports, stop := context.WithCancel(ctx)
	var reporting sync.WaitGroup
	reporting.Go(func() { r.report(reports, s, log) })
	defer reporting.Wait()
	defer stop()

	retry := retries{}
	for {
		r.node.fault(s.Name)
		err := s.Run(r.node, ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err == nil {
			r.track.done(s.Name)
			log.Log(ctx, levelStage, fmt.Sprintf("done in %s", shortDuration(time.Since(begun))))
			return nil
		}
		var held Held
		if errors.As(err, &held) {
			r.track.hold(s.Name, held.Error())
			log.Error("held until a reboot: " + held.Error())
			<-ctx.Done()
			return ctx.Err()
		}
		pause := retry.next()
		if r.track.fail(s.Name, err.Error(), pause) {
			log.Warn(fmt.Sprintf("%s; next try in %s", err, shortDuration(pause)))
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(pause):
		}
	}
}

// report names what a stage waits for once its patience is over.
func (r *runner) report(ctx context.Context, s Stage, log *slog.Logger) {
	wait := s.Patience
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
		line, held := r.track.waiting(s.Name)
		log.Warn(line)
		wait = repeatWaiting
		if held {
			wait = repeatHeld
		}
	}
}

// retries is exponential backoff with full jitter on its upper half: it never
// returns less than half the bound, because the causes here are devices and
// files of this machine, not a server that a herd could trample.
type retries struct{ bound time.Duration }

func (r *retries) next() time.Duration {
	r.bound = min(max(r.bound*2, firstRetry), lastRetry)
	return r.bound/2 + rand.N(r.bound/2)
}

func shortDuration(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(time.Millisecond)
	}
	return d.Round(100 * time.Millisecond)
}
