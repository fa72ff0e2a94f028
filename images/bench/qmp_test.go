package bench

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"
)

// fakeQEMU greets, refuses "refuse", never answers "ignore", hangs up on "quit",
// and obeys all else. Its guest lets go of one device.
func fakeQEMU(conn net.Conn) {
	defer conn.Close()
	unplugged := false
	fmt.Fprintln(conn, `{"QMP": {"version": {}, "capabilities": []}}`)
	in := json.NewDecoder(bufio.NewReader(conn))
	for {
		var cmd struct {
			Execute string
			ID      int
		}
		if err := in.Decode(&cmd); err != nil {
			return
		}
		switch cmd.Execute {
		case "ignore":
		case "quit":
			return
		case "refuse":
			fmt.Fprintf(conn, `{"id": %d, "error": {"class": "GenericError", "desc": "no such device"}}`, cmd.ID)
		case "device_del":
			if !unplugged {
				unplugged = true
				fmt.Fprintln(conn, `{"event": "DEVICE_DELETED", "data": {"path": "/machine/peripheral/nic2/virtio-backend"}}`)
				fmt.Fprintln(conn, `{"event": "DEVICE_DELETED", "data": {"device": "nic2"}}`)
			}
			fallthrough
		default:
			fmt.Fprintf(conn, `{"id": %d, "return": {}}`, cmd.ID)
		}
	}
}

func TestMonitor(t *testing.T) {
	ours, theirs := net.Pipe()
	go fakeQEMU(theirs)
	m := newMonitor(ours)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := m.do(ctx, "qmp_capabilities", nil); err != nil {
		t.Fatal(err)
	}
	if err := m.do(ctx, "refuse", map[string]any{"id": "nic9"}); err == nil || err.Error() != "QMP refuse: no such device" {
		t.Errorf("refused: %v", err)
	}
	short, cancelShort := context.WithTimeoutCause(ctx, time.Millisecond, fmt.Errorf("too slow"))
	defer cancelShort()
	if err := m.do(short, "ignore", nil); err == nil || err.Error() != "QMP ignore: too slow" {
		t.Errorf("ignored: %v", err)
	}
	if err := m.unplug(ctx, "nic2"); err != nil {
		t.Error(err)
	}
	soon, cancelSoon := context.WithTimeoutCause(ctx, 50*time.Millisecond, fmt.Errorf("too slow"))
	defer cancelSoon()
	if err := m.unplug(soon, "nic2"); err == nil || err.Error() != "too slow" {
		t.Errorf("took the end of one device for that of the next: %v", err)
	}
	if err := m.do(ctx, "quit", nil); err == nil || !strings.Contains(err.Error(), "EOF") {
		t.Errorf("hung up: %v", err)
	}
	if err := m.do(ctx, "query-status", nil); err == nil {
		t.Error("a command to nobody succeeded")
	}
}

// TestResets: the firmware's own are no restart of the node.
func TestResets(t *testing.T) {
	begun := time.Unix(1000, 0)
	var events []Event
	for _, ms := range []int{30_000, 30_130, 30_132, 45_000, 60_000, 60_460} {
		events = append(events, Event{At: begun.Add(time.Duration(ms) * time.Millisecond), Name: "RESET"},
			Event{At: begun.Add(time.Duration(ms+1) * time.Millisecond), Name: "NIC_RX_FILTER_CHANGED"})
	}
	if n := resets(events); n != 3 {
		t.Errorf("%d restarts", n)
	}
}
