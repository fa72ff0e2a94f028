package proc

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"time"
)

// The control socket carries one JSON frame a line, requests one way and
// replies the other, matched by id. It is a private socket between two copies
// of one binary: there is no version to negotiate.
type frame struct {
	ID    uint64          `json:"id"`
	Op    string          `json:"op,omitempty"`
	Error string          `json:"error,omitempty"`
	Body  json.RawMessage `json:"body,omitempty"`
}

const (
	// maxFrame bounds what init will hold for one request: a page of the log
	// is the largest thing ever sent and stays under 256 KiB.
	maxFrame = 1 << 20
	// maxInFlight bounds the goroutines an agent can make init start. Each of
	// 1000 services may have one that waits for its notices, one for a probe's
	// end and one for the end of its output, and all may be stopped at once;
	// what is refused for want of room is a signal that is not sent, or the
	// agent's sign of life. One that waits takes 9 KiB, of init and agent.
	maxInFlight = 4096
	// writeDeadline is how long init lets an agent not read its replies
	// before it gives the connection up; init itself never waits for it.
	writeDeadline = 10 * time.Second
)

// ErrInitGone is what pending and later calls return once the control socket
// is closed.
var ErrInitGone = errors.New("control socket closed")

// Handler answers one operation. Its error reaches the caller as text.
type Handler func(ctx context.Context, body json.RawMessage) (any, error)

// Handle makes a Handler of a function with typed arguments.
func Handle[In, Out any](f func(context.Context, In) (Out, error)) Handler {
	return func(ctx context.Context, body json.RawMessage) (any, error) {
		var in In
		if err := json.Unmarshal(body, &in); err != nil {
			return nil, fmt.Errorf("decode request: %w", err)
		}
		return f(ctx, in)
	}
}

// Serve answers requests on conn until it closes or ctx ends; it returns nil
// on a clean close. Each request runs in a goroutine of its own, so that one
// that waits (for an exit, for a log line) holds nobody.
func Serve(ctx context.Context, conn net.Conn, ops map[string]Handler) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()

	s := &server{ops: ops, w: &frameWriter{conn: conn}, cancels: map[uint64]context.CancelFunc{}}
	defer s.running.Wait()
	defer cancel() // before the Wait: it ends the handlers that wait
	lines := scanner(conn)
	for lines.Scan() {
		var req frame
		if err := json.Unmarshal(lines.Bytes(), &req); err != nil {
			return fmt.Errorf("read control request: %w", err)
		}
		if req.Op == opCancel {
			s.cancel(req.ID)
			continue
		}
		s.begin(ctx, req)
	}
	if err := lines.Err(); err != nil && ctx.Err() == nil {
		return fmt.Errorf("read control socket: %w", err)
	}
	return nil
}

// opCancel says that nobody waits for the reply of that id any more. Without
// it, a call that waits for a log line would go on after its caller left, and
// enough of them would leave no room for the agent's sign of life.
const opCancel = "cancel"

// server is one connection's requests under way.
type server struct {
	ops     map[string]Handler
	w       *frameWriter
	running sync.WaitGroup

	mu      sync.Mutex
	cancels map[uint64]context.CancelFunc
}

func (s *server) begin(ctx context.Context, req frame) {
	ctx, cancel := context.WithCancel(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.cancels) >= maxInFlight {
		cancel()
		s.running.Go(func() { s.w.send(frame{ID: req.ID, Error: "too many requests in flight"}) })
		return
	}
	s.cancels[req.ID] = cancel
	s.running.Go(func() {
		s.w.send(answer(ctx, s.ops, req))
		s.cancel(req.ID)
	})
}

func (s *server) cancel(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if cancel := s.cancels[id]; cancel != nil {
		cancel()
		delete(s.cancels, id)
	}
}

func answer(ctx context.Context, ops map[string]Handler, req frame) frame {
	h, ok := ops[req.Op]
	if !ok {
		return frame{ID: req.ID, Error: fmt.Sprintf("unknown operation %q", req.Op)}
	}
	out, err := h(ctx, req.Body)
	if err != nil {
		return frame{ID: req.ID, Error: err.Error()}
	}
	body, err := encode(out)
	if err != nil {
		return frame{ID: req.ID, Error: "encode reply: " + err.Error()}
	}
	return frame{ID: req.ID, Body: body}
}

type frameWriter struct {
	mu   sync.Mutex
	conn net.Conn
}

// send drops the connection rather than wait for a reader that does not read.
func (w *frameWriter) send(f frame) error {
	line, err := encode(f)
	if err != nil {
		return err
	}
	if len(line) > maxFrame { // its reader would give the socket up
		line, _ = encode(frame{ID: f.ID, Op: f.Op, Error: fmt.Sprintf("frame of %d bytes, the limit is %d", len(line), maxFrame)})
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conn.SetWriteDeadline(time.Now().Add(writeDeadline))
	if _, err := w.conn.Write(line); err != nil {
		w.conn.Close()
		return err
	}
	return nil
}

// caller is the requesting side.
type caller struct {
	w       frameWriter
	mu      sync.Mutex
	last    uint64
	pending map[uint64]chan frame
	closed  bool
}

func newCaller(conn net.Conn) *caller {
	c := &caller{w: frameWriter{conn: conn}, pending: map[uint64]chan frame{}}
	go c.receive(conn)
	return c
}

func (c *caller) receive(conn io.Reader) {
	lines := scanner(conn)
	for lines.Scan() {
		var f frame
		if json.Unmarshal(lines.Bytes(), &f) != nil {
			break
		}
		c.mu.Lock()
		ch := c.pending[f.ID]
		delete(c.pending, f.ID)
		c.mu.Unlock()
		if ch != nil {
			ch <- f
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for id, ch := range c.pending {
		close(ch)
		delete(c.pending, id)
	}
}

func (c *caller) call(ctx context.Context, op string, in, out any) error {
	body, err := encode(in)
	if err != nil {
		return fmt.Errorf("%s: encode request: %w", op, err)
	}
	id, reply := c.expect()
	if reply == nil {
		return fmt.Errorf("%s: %w", op, ErrInitGone)
	}
	if err := c.w.send(frame{ID: id, Op: op, Body: body}); err != nil {
		c.forget(id)
		return fmt.Errorf("%s: %w: %w", op, ErrInitGone, err)
	}
	select {
	case <-ctx.Done():
		c.forget(id)
		_ = c.w.send(frame{ID: id, Op: opCancel}) // a socket that fails has ended the call as well
		return fmt.Errorf("%s: %w", op, ctx.Err())
	case f, ok := <-reply:
		if !ok {
			return fmt.Errorf("%s: %w", op, ErrInitGone)
		}
		if f.Error != "" {
			return fmt.Errorf("%s: %s", op, f.Error)
		}
		if err := json.Unmarshal(f.Body, out); err != nil {
			return fmt.Errorf("%s: decode reply: %w", op, err)
		}
		return nil
	}
}

func (c *caller) expect() (uint64, chan frame) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return 0, nil
	}
	c.last++
	ch := make(chan frame, 1)
	c.pending[c.last] = ch
	return c.last, ch
}

func (c *caller) forget(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
}

// encode makes one line of JSON. The default escapes of <, > and & are for web
// pages, and would make six bytes of one.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func scanner(r io.Reader) *bufio.Scanner {
	s := bufio.NewScanner(r)
	s.Buffer(make([]byte, 0, 4096), maxFrame)
	return s
}
