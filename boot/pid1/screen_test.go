package pid1

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"reveille/boot/proc"
	"reveille/console"
)

// screenText is the status screen as a person would read it.
func screenText(i *Init) string {
	var rows []string
	for _, l := range i.view().Render(100, 40) {
		rows = append(rows, strings.TrimSpace(l.Text))
	}
	return strings.Join(rows, "\n")
}

func wantOnScreen(t *testing.T, i *Init, texts ...string) {
	t.Helper()
	got := screenText(i)
	for _, want := range texts {
		if !strings.Contains(got, want) {
			t.Errorf("no %q on\n%s", want, got)
		}
	}
}

func report(t *testing.T, i *Init, p proc.Progress) {
	t.Helper()
	if _, err := i.setStage(context.Background(), p); err != nil {
		t.Fatal(err)
	}
}

// TestView follows a boot on the status screen: no agent yet, one that waits,
// one that dies, one that is silent, the end.
func TestView(t *testing.T) {
	i, ctx := newTestInit(t, "panic")
	wantOnScreen(t, i, "(no name yet)", "waiting: the agent has not reported yet")

	progress := proc.Progress{
		Stage: "network", Waiting: "eth1: no carrier",
		Stages: []proc.StageProgress{{Name: "mounts", State: proc.StageDone, For: 1200 * time.Millisecond}, {Name: "network", State: proc.StageWaiting, For: time.Minute}, {Name: "join"}},
		Facts:  proc.Facts{Name: "n1", Addresses: []string{"10.0.0.1", "fd00::1"}, Cluster: "member of c1"},
	}
	report(t, i, progress)
	i.warn("a warning")
	wantOnScreen(t, i, "n1  reveille test", "mounts      done     1.2s   addresses  10.0.0.1 fd00::1", "network     waiting  1m00s  cluster    member of c1",
		"join        -", "waiting: eth1: no carrier", "init W a warning")

	i.runAgent(ctx, 1)
	wantOnScreen(t, i, "agent crashed: panic: ", "1 of the agent in this boot", "stage network")
	i.down("agent 1 ended: exit status 2; starting it again in 500ms")
	wantOnScreen(t, i, "waiting: agent 1 ended: exit status 2; starting it again in 500ms")
	i.born()
	report(t, i, progress)
	wantOnScreen(t, i, "waiting: eth1: no carrier")

	i.mu.Lock()
	i.heard = time.Now().Add(-12 * time.Second)
	i.mu.Unlock()
	wantOnScreen(t, i, "waiting: no sign of the agent for 12s; it is killed and started again after 30s", "network     waiting  1m10s")

	i.mu.Lock()
	i.ending = "reboot: asked by operator"
	i.mu.Unlock()
	wantOnScreen(t, i, "reboot: asked by operator")
	if strings.Contains(screenText(i), "waiting: ") {
		t.Error("still waits for something")
	}
}

// TestScreenHolds wants a display that hangs, or fails, to hold nobody else.
func TestScreenHolds(t *testing.T) {
	i, _ := newTestInit(t, "")
	release := make(chan struct{})
	drawn := make(chan struct{}, 8)
	i.redraw = make(chan chan struct{}, 1)
	go i.keepScreen(func(console.View) error {
		drawn <- struct{}{}
		<-release
		return nil
	})
	<-drawn
	began := time.Now()
	i.drawNow(10 * time.Millisecond)
	i.drawNow(10 * time.Millisecond)
	if took := time.Since(began); took > 5*time.Second {
		t.Errorf("waited %s for a display that hangs", took)
	}
	close(release)
	<-drawn // it goes on
}

func TestScreenFails(t *testing.T) {
	i, _ := newTestInit(t, "")
	tries := 0
	twice := make(chan struct{})
	i.redraw = make(chan chan struct{}, 1)
	go i.keepScreen(func(console.View) error {
		if tries++; tries == 2 {
			close(twice)
		}
		return errors.New("draw status screen: input/output error")
	})
	i.drawNow(time.Millisecond)
	<-twice
	records, _, _ := i.log.Read(1, console.Filter{Min: console.Warn}, 10)
	if len(records) != 1 || !strings.Contains(records[0].Text, "input/output error; next try in 1s") {
		t.Errorf("said %+v", records)
	}
}
