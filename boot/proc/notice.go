package proc

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"sync"
)

// OpNotices waits for news of a process's notify socket.
const OpNotices = "notices"

// NoticeQuery asks for what an incarnation has said after a message.
type NoticeQuery struct {
	Target
	After uint64 `json:"after"` // Notices.Seq of the last answer; 0: none yet
}

// Notices is what an incarnation has said over sd_notify(3) so far. init holds
// the socket, so that nothing is lost while there is no agent.
type Notices struct {
	Seq     uint64 `json:"seq"`     // messages that meant something
	Ready   bool   `json:"ready"`   // READY=1
	Beats   uint64 `json:"beats"`   // WATCHDOG=1 so often
	Trigger bool   `json:"trigger"` // WATCHDOG=trigger: it gives itself up
}

// Notices returns what an incarnation has said as soon as it is more than after.
func (c *Client) Notices(ctx context.Context, q NoticeQuery) (Notices, error) {
	return reply[Notices](ctx, c, OpNotices, q)
}

// Notices returns what an incarnation has said as soon as it is more than
// after, or ctx's error.
func (t *Table) Notices(ctx context.Context, q NoticeQuery) (Notices, error) {
	e, err := t.find(q.Name, q.Incarnation)
	if err != nil {
		return Notices{}, err
	}
	if e.notify == nil {
		return Notices{}, fmt.Errorf("process %s has no notify socket", q.Name)
	}
	return e.notify.after(ctx, q.After)
}

// maxNotice is what of a message is read: systemd's own limit is a page.
const maxNotice = 4096

// maxStatus is what of a STATUS= is kept, in bytes.
const maxStatus = 256

// fold takes a message up, and returns its STATUS=. What it does not know it
// overlooks: programs say more than anybody asked for.
func (n *Notices) fold(message []byte) (status string) {
	before := *n
	for line := range bytes.Lines(message) {
		key, value, _ := strings.Cut(strings.TrimRight(string(line), "\n"), "=")
		switch {
		case key == "READY" && value == "1":
			n.Ready = true
		case key == "WATCHDOG" && value == "1":
			n.Beats++
		case key == "WATCHDOG" && value == "trigger":
			n.Trigger = true
		case key == "STATUS":
			status = strings.ToValidUTF8(value[:min(len(value), maxStatus)], "")
		}
	}
	if *n != before {
		n.Seq++
	}
	return status
}

// noticeBoard has the notices of one incarnation for whoever asks.
type noticeBoard struct {
	mu   sync.Mutex
	last Notices
	more chan struct{} // closed at the next
}

func newNoticeBoard() *noticeBoard { return &noticeBoard{more: make(chan struct{})} }

func (b *noticeBoard) take(message []byte) (status string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	seq := b.last.Seq
	if status = b.last.fold(message); b.last.Seq != seq {
		close(b.more)
		b.more = make(chan struct{})
	}
	return status
}

func (b *noticeBoard) after(ctx context.Context, seq uint64) (Notices, error) {
	for {
		b.mu.Lock()
		last, more := b.last, b.more
		b.mu.Unlock()
		if last.Seq > seq {
			return last, nil
		}
		select {
		case <-ctx.Done():
			return last, ctx.Err()
		case <-more:
		}
	}
}
