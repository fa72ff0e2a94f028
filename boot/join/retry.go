package join

import (
	"context"
	"time"
)

const (
	// firstCeiling and lastCeiling bound the random delays: a rack powered on
	// at once spreads over a second, and a controller that comes back after a
	// long absence meets 200 nodes over half a minute.
	firstCeiling = time.Second
	lastCeiling  = 30 * time.Second
)

// backoff draws delays with full jitter: uniform between zero and a ceiling
// that doubles with each one drawn. The first attempt is delayed too, since
// what makes one client try often makes all of them try.
type backoff struct {
	drawn  int
	atOnce bool // the next one is no delay
	int64n func(int64) int64
}

func (b *backoff) next() time.Duration {
	if b.atOnce {
		b.atOnce = false
		return 0
	}
	ceiling := lastCeiling
	if b.drawn < 5 { // 1<<5 s is over the last ceiling
		ceiling = firstCeiling << b.drawn
	}
	b.drawn++
	return time.Duration(b.int64n(int64(ceiling)))
}

// reset is for a connection that held: without that, a controller that accepts
// and then fails would be met at the first, short delays for ever.
func (b *backoff) reset() { b.drawn = 0 }

// goOn is for a step that follows one which succeeded: that one has spread the
// clients already, and a second delay would only make each boot longer.
func (b *backoff) goOn() { b.drawn, b.atOnce = 0, true }

// retry calls try until it succeeds, the cluster refuses, or ctx ends. The
// wait is visible in Client.Waiting all the time, and in the log when there is
// news or, if it repeats, at a steady pace.
func (c *Client) retry(ctx context.Context, repeats bool, try func(context.Context) error) error {
	w := startWait(c.log, repeats)
	c.setWaiting(w)
	defer func() {
		w.stop()
		c.setWaiting(nil)
	}()
	delay := c.retries.next()
	for {
		if err := sleep(ctx, delay); err != nil {
			return err
		}
		w.trying()
		err := try(ctx)
		if err == nil || ctx.Err() != nil || isRefused(err) {
			return err
		}
		delay = c.retries.next()
		w.failed(err, delay)
	}
}

func (c *Client) setWaiting(w *wait) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.waiting = w
}

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
