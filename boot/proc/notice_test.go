package proc

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"testing"
	"time"
)

func TestFold(t *testing.T) {
	var n Notices
	for _, tc := range []struct {
		message, status string
		want            Notices
	}{
		{"STATUS=loading\n", "loading", Notices{}},
		{"READY=0\nX_Y=1\nFDSTORE=1", "", Notices{}},
		{"READY=1\nSTATUS=up", "up", Notices{Seq: 1, Ready: true}},
		{"READY=1", "", Notices{Seq: 1, Ready: true}}, // said already
		{"WATCHDOG=1\nWATCHDOG=1\n", "", Notices{Seq: 2, Ready: true, Beats: 2}},
		{"WATCHDOG=trigger", "", Notices{Seq: 3, Ready: true, Beats: 2, Trigger: true}},
		{"", "", Notices{Seq: 3, Ready: true, Beats: 2, Trigger: true}},
	} {
		if status := n.fold([]byte(tc.message)); status != tc.status || n != tc.want {
			t.Errorf("%q: status %q, %+v", tc.message, status, n)
		}
	}
}

// FuzzFold: nothing that is said is taken back, and nothing is unbounded.
func FuzzFold(f *testing.F) {
	for _, seed := range []string{"READY=1\nSTATUS=x", "WATCHDOG=1", "=\n=", "STATUS=\xff\xfe", "\x00"} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, message []byte) {
		before := Notices{Seq: 5, Ready: true, Beats: 7, Trigger: true}
		after := before
		status := after.fold(message)
		if !after.Ready || !after.Trigger || after.Beats < before.Beats || after.Seq < before.Seq || after.Seq > before.Seq+1 || len(status) > maxStatus {
			t.Fatalf("%q: %+v, status %q", message, after, status)
		}
	})
}

func TestUnderCgroup(t *testing.T) {
	for _, tc := range []struct {
		path, folder string
		want         bool
	}{
		{"/services/vm-1", "/sys/fs/cgroup/services/vm-1", true},
		{"/services/vm-1/nested", "/sys/fs/cgroup/services/vm-1", true},
		{"/services/vm-12", "/sys/fs/cgroup/services/vm-1", false},
		{"/", "/sys/fs/cgroup/services/vm-1", false},
		{"", "/sys/fs/cgroup/services/vm-1", false},
	} {
		if got := underCgroup(tc.path, tc.folder); got != tc.want {
			t.Errorf("%s under %s: %t", tc.path, tc.folder, got)
		}
	}
}

const notifyMark = "notifier"

// notify is the child of TestNotifySocket: it says all it is given, and goes on.
func notify(messages []string) {
	conn, err := net.Dial("unixgram", os.Getenv("NOTIFY_SOCKET"))
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	for _, m := range messages {
		if _, err := conn.Write([]byte(m)); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
	select {}
}

// A process is heard over its socket, and nobody else is.
func TestNotifySocket(t *testing.T) {
	table, ctx := reaping(t)
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	status := make(chan string, 10)
	out := discard()
	out.Status = func(s string) { status <- s }
	spec := Spec{Name: "said", Incarnation: 1, Path: exe, Argv: []string{notifyMark, "STATUS=begins", "READY=1", "WATCHDOG=1"}, Notify: true}
	if _, err := table.Start(t.Context(), spec, out); err != nil {
		t.Fatal(err)
	}
	target := Target{Name: "said", Incarnation: 1}
	var n Notices
	for n.Beats == 0 {
		if n, err = table.Notices(ctx, NoticeQuery{target, n.Seq}); err != nil {
			t.Fatal(err)
		}
	}
	if !n.Ready || n.Beats != 1 {
		t.Errorf("heard %+v", n)
	}
	if got := <-status; got != "begins" {
		t.Errorf("status %q", got)
	}

	conn, err := net.Dial("unixgram", notifyAddress(spec)) // a stranger
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Write([]byte("WATCHDOG=trigger")); err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	if n, err := table.Notices(short, NoticeQuery{target, n.Seq}); !errors.Is(err, context.DeadlineExceeded) || n.Trigger {
		t.Errorf("a stranger was heard: %+v, %v", n, err)
	}

	if err := table.Signal("said", 1, 9); err != nil {
		t.Fatal(err)
	}
	if _, err := table.Wait(ctx, "said", 1); err != nil {
		t.Fatal(err)
	}
	for err == nil { // the name is free once the process has ended
		_, err = conn.Write([]byte("READY=1"))
	}
}
