package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// Event is something that QEMU said happened to the machine: RESET, SHUTDOWN,
// DEVICE_DELETED, WATCHDOG, ... (QEMU QMP reference, "Events").
type Event struct {
	At   time.Time // host time
	Name string
	Data map[string]any
}

// monitor speaks QMP over a connection of our own. A library would dial a path;
// a descriptor cannot be connected to by anybody else and leaves nothing behind.
type monitor struct {
	conn net.Conn

	mu      sync.Mutex
	changed chan struct{}
	events  []Event
	nextID  int
	replies map[int]qmpMessage
	err     error // why it ended
}

type qmpMessage struct {
	ID     int             `json:"id"`
	Return json.RawMessage `json:"return"`
	Error  *struct {
		Class string `json:"class"`
		Desc  string `json:"desc"`
	} `json:"error"`
	Event string         `json:"event"`
	Data  map[string]any `json:"data"`
}

func newMonitor(conn net.Conn) *monitor {
	m := &monitor{conn: conn, changed: make(chan struct{}), replies: map[int]qmpMessage{}}
	go m.read()
	return m
}

// neverConnected stands for the monitor of a node that was never on.
func neverConnected() *monitor {
	return &monitor{changed: make(chan struct{}), err: errors.New("the node is off")}
}

func (m *monitor) close() {
	if m.conn != nil {
		m.conn.Close()
	}
}

func (m *monitor) read() {
	dec := json.NewDecoder(m.conn)
	for {
		var msg qmpMessage
		err := dec.Decode(&msg)
		m.mu.Lock()
		switch {
		case err != nil:
			m.err = fmt.Errorf("read QMP: %w", err)
		case msg.Event != "":
			m.events = append(m.events, Event{At: time.Now(), Name: msg.Event, Data: msg.Data})
		case msg.ID != 0: // the greeting has none
			m.replies[msg.ID] = msg
		}
		close(m.changed)
		m.changed = make(chan struct{})
		m.mu.Unlock()
		if err != nil {
			m.close()
			return
		}
	}
}

// do runs one command and waits for its reply.
func (m *monitor) do(ctx context.Context, command string, args map[string]any) error {
	m.mu.Lock()
	m.nextID++
	id := m.nextID
	m.mu.Unlock()
	line, err := json.Marshal(map[string]any{"execute": command, "arguments": args, "id": id})
	if args == nil {
		line, err = json.Marshal(map[string]any{"execute": command, "id": id})
	}
	if err != nil {
		return fmt.Errorf("QMP %s: %w", command, err)
	}
	if _, err := m.conn.Write(line); err != nil {
		return fmt.Errorf("QMP %s: %w", command, err)
	}
	var reply qmpMessage
	err = m.await(ctx, func() bool {
		var ok bool
		reply, ok = m.replies[id]
		delete(m.replies, id)
		return ok
	})
	if err == nil && reply.Error != nil {
		err = errors.New(reply.Error.Desc)
	}
	if err != nil {
		return fmt.Errorf("QMP %s: %w", command, err)
	}
	return nil
}

// await waits until cond, which is called with mu held, is true.
func (m *monitor) await(ctx context.Context, cond func() bool) error {
	for {
		m.mu.Lock()
		ok, changed, err := cond(), m.changed, m.err
		m.mu.Unlock()
		switch {
		case ok:
			return nil
		case err != nil:
			return err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// hungUp says whether QEMU closed the connection.
func (m *monitor) hungUp() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.err != nil
}

// unplug asks the guest to let go of a device, and waits until it did: what says
// so comes after the request, and is not that of an earlier device by that name.
func (m *monitor) unplug(ctx context.Context, device string) error {
	m.mu.Lock()
	before := len(m.events)
	m.mu.Unlock()
	if err := m.do(ctx, "device_del", map[string]any{"id": device}); err != nil {
		return err
	}
	return m.await(ctx, func() bool {
		return slices.ContainsFunc(m.events[before:], func(e Event) bool {
			return e.Name == "DEVICE_DELETED" && e.Data["device"] == device
		})
	})
}
