package monitor

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"reveille/boot/service"
)

// follow starts what hints at a change before the next look would find it.
func (m *monitor) follow(ctx context.Context) {
	s := m.target.Service
	if s.Alive != nil && s.Alive.Identity != nil && s.Alive.Identity.Watch != "" {
		go m.followWatch(ctx, s.Alive.Identity.Watch, orElse(s.Alive.Interval, defaultInterval))
	}
	if s.Ready != nil && s.Ready.Notify || s.Alive != nil && s.Alive.Notify {
		m.heard.began(time.Now())
		go m.followNotices(ctx, noticePause(s.Alive))
	}
}

// watchFor bounds a long poll: a connection that a middleman has forgotten
// would be held for ever.
const watchFor = 5 * time.Minute

// followWatch keeps one request open at the service. That it ends, in whatever
// way, is worth a look; an end without an answer is not asked again before the
// interval is over.
func (m *monitor) followWatch(ctx context.Context, url string, interval time.Duration) {
	for ctx.Err() == nil {
		wait := leastDelay
		if m.watchOnce(ctx, url) != nil {
			wait = max(interval, leastDelay)
		}
		m.hint()
		sleep(ctx, wait)
	}
}

func (m *monitor) watchOnce(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, watchFor)
	defer cancel()
	separator := "?"
	if strings.Contains(url, "?") {
		separator = "&"
	}
	status, _, err := m.get(ctx, fmt.Sprintf("%s%sgeneration=%d", url, separator, m.heard.generation.Load()))
	if err == nil && status != 200 {
		err = fmt.Errorf("%d", status)
	}
	return err
}

// noticePause is between two questions for notices. Beats are counted, so none is
// lost, but it is known later: by a quarter of its interval at most.
func noticePause(alive *service.Probe) time.Duration {
	if alive != nil && alive.Notify && alive.Interval > 0 {
		return min(leastDelay, alive.Interval/4)
	}
	return leastDelay
}

// followNotices takes up what the service says over sd_notify.
func (m *monitor) followNotices(ctx context.Context, pause time.Duration) {
	var last Notice
	for ctx.Err() == nil {
		n, err := m.target.Notices(ctx, last.Seq)
		if err != nil { // init is gone, and the agent soon
			sleep(ctx, time.Second)
			continue
		}
		m.heard.take(n, time.Now())
		last = n
		m.hint()
		sleep(ctx, pause) // it may say something all the time
	}
}

func sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// heard is what was last heard without asking.
type heard struct {
	generation atomic.Uint64 // of the last list

	mu   sync.Mutex
	last Notice
	beat time.Time // of the last WATCHDOG=1 that came here, or of the start
}

func (h *heard) began(at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.beat = at
}

func (h *heard) take(news Notice, at time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if news.Beats != h.last.Beats {
		h.beat = at
	}
	h.last = news
}

// answer is what the service has said of itself: that it is ready, and once it
// is, that it lives, within every interval.
func (h *heard) answer(ready bool, interval time.Duration) answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch silence := time.Since(h.beat); {
	case h.last.Trigger:
		return answer{kind: givesUp, text: "it said WATCHDOG=trigger"}
	case !ready && !h.last.Ready:
		return answer{kind: unclear, text: "it has not said READY=1"}
	case ready && silence > interval:
		return answer{kind: unclear, text: fmt.Sprintf("no WATCHDOG=1 within %s", interval)}
	}
	return answer{kind: well, early: ready && h.last.Beats == 0}
}
