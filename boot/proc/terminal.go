package proc

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// The operations on the terminal of a process, which init holds: it outlives
// the agent, and with it who is attached.
const (
	OpTerminal = "terminal"
	OpType     = "type"
)

// TerminalQuery asks for what a process has written to its terminal.
type TerminalQuery struct {
	Target
	From uint64 `json:"from"` // offset in all that it has written
	Wait bool   `json:"wait"` // block until there is something, or no more will come
}

// TerminalPage is a part of it, byte for byte.
type TerminalPage struct {
	Data []byte `json:"data"`
	Lost uint64 `json:"lost"` // bytes before it that are no longer kept
	Next uint64 `json:"next"` // the From of the next query
	End  bool   `json:"end"`  // no more will come
}

// Typed is input for a process's terminal.
type Typed struct {
	Target
	Data    []byte `json:"data,omitempty"`
	Rows    uint16 `json:"rows,omitempty"` // of who looks at it; 0: as before
	Columns uint16 `json:"columns,omitempty"`
}

// MaxTyped bounds the input of one request.
const MaxTyped = 16 << 10

// Terminal reads a process's terminal.
func (c *Client) Terminal(ctx context.Context, q TerminalQuery) (TerminalPage, error) {
	return reply[TerminalPage](ctx, c, OpTerminal, q)
}

// Type types into a process's terminal.
func (c *Client) Type(ctx context.Context, in Typed) error {
	return c.c.call(ctx, OpType, in, &Nothing{})
}

// Terminal reads a process's terminal.
func (t *Table) Terminal(ctx context.Context, q TerminalQuery) (TerminalPage, error) {
	term, err := t.terminal(q.Target)
	if err != nil {
		return TerminalPage{}, err
	}
	return term.shown.read(ctx, q.From, q.Wait)
}

// Type types into a process's terminal. One that does not read does not hold
// the caller for long.
func (t *Table) Type(in Typed) error {
	if len(in.Data) > MaxTyped {
		return fmt.Errorf("type %d bytes: the limit is %d", len(in.Data), MaxTyped)
	}
	term, err := t.terminal(in.Target)
	if err != nil {
		return err
	}
	return term.take(in)
}

func (t *Table) terminal(target Target) (*terminal, error) {
	e, err := t.find(target.Name, target.Incarnation)
	if err != nil {
		return nil, err
	}
	if e.terminal == nil {
		return nil, errors.New("process " + target.Name + " has no terminal")
	}
	return e.terminal, nil
}

// keptShown is how much of a terminal's output is kept: some full screens.
const keptShown = 64 << 10

// shown is the end of what was written to a terminal.
type shown struct {
	mu   sync.Mutex
	data []byte
	next uint64        // offset behind data
	end  bool          // no more will come
	more chan struct{} // closed at the next change
}

func newShown() *shown { return &shown{more: make(chan struct{})} }

// Write implements io.Writer; it never fails.
func (s *shown) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.data = append(s.data, p...)
	s.next += uint64(len(p))
	if over := len(s.data) - keptShown; over > 0 {
		s.data = append(s.data[:0], s.data[over:]...)
	}
	s.change()
	return len(p), nil
}

func (s *shown) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.end = true
	s.change()
}

// change wakes who waits; s.mu is held.
func (s *shown) change() {
	close(s.more)
	s.more = make(chan struct{})
}

func (s *shown) read(ctx context.Context, from uint64, wait bool) (TerminalPage, error) {
	for {
		page, more := s.since(from)
		if len(page.Data) > 0 || page.End || !wait {
			return page, nil
		}
		select {
		case <-ctx.Done():
			return page, ctx.Err()
		case <-more:
		}
	}
}

func (s *shown) since(from uint64) (TerminalPage, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := s.next - uint64(len(s.data))
	page := TerminalPage{Data: []byte{}, Next: s.next, End: s.end}
	if from < first {
		page.Lost, from = first-from, first
	}
	if from < s.next {
		page.Data = append(page.Data, s.data[from-first:]...)
	}
	return page, s.more
}
