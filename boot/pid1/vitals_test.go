package pid1

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"
)

func TestVitals(t *testing.T) {
	for _, c := range []struct {
		v     vitals
		fault string
	}{
		{vitals{}, ""},
		{vitals{turnEvery, 2 * time.Second, 0}, ""},
		{vitals{maxLoop, maxAgent, maxConsole}, ""},
		{vitals{maxLoop + 1, 0, 0}, "init's loop has not turned for 20s"},
		{vitals{0, maxAgent + 1, 0}, "no sign of the agent for 1m40s"},
		{vitals{0, 0, 19 * time.Second}, ""}, // the slowest write seen
		{vitals{0, 0, 2 * time.Minute}, "a console's driver has held its writer for 2m0s"},
	} {
		if got := c.v.fault(); got != c.fault {
			t.Errorf("%+v: %q, want %q", c.v, got, c.fault)
		}
	}
}

// TestLoopStandsStill: a lock of init's that is never given back is seen.
func TestLoopStandsStill(t *testing.T) {
	i, _ := newTestInit(t, "")
	i.turn()
	if v := i.vitals(); v.loop > time.Second || v.fault() != "" {
		t.Fatalf("in good health: %+v", v)
	}
	i.mu.Lock()
	turned := make(chan struct{})
	go func() { i.turn(); close(turned) }()
	select {
	case <-turned:
		t.Error("the loop turned without the lock")
	case <-time.After(50 * time.Millisecond):
	}
	i.mu.Unlock()
	<-turned
}

func TestComplaint(t *testing.T) {
	var c complaint
	for n, text := range []string{"a", "a", "b", "", "b"} {
		if got, want := c.anew(text), n != 1; got != want {
			t.Errorf("%d, %q: %t", n, text, got)
		}
	}
}

func TestPowerKey(t *testing.T) {
	event := func(kind, code uint16, value uint32) []byte {
		b := make([]byte, eventSize)
		binary.NativeEndian.PutUint16(b[16:], kind)
		binary.NativeEndian.PutUint16(b[18:], code)
		binary.NativeEndian.PutUint32(b[20:], value)
		return b
	}
	down, up, sync, other := event(evKey, keyPower, 1), event(evKey, keyPower, 0), event(0, 0, 0), event(evKey, 30, 1)
	for _, c := range []struct {
		name   string
		events [][]byte
		want   bool
	}{
		{"pressed", [][]byte{down, sync}, true},
		{"released", [][]byte{up, sync}, false},
		{"another key first", [][]byte{other, sync, down}, true},
		{"another key", [][]byte{other, sync}, false},
		{"cut off", [][]byte{down[:20]}, false},
		{"nothing", nil, false},
	} {
		var all []byte
		for _, e := range c.events {
			all = append(all, e...)
		}
		if got := pressed(all); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}

func TestSettings(t *testing.T) {
	for _, c := range []struct {
		cmdline string
		panics  bool // that we set when a panic restarts
	}{
		{"console=ttyS0 quiet", true},
		{"console=ttyS0 panic=-1 quiet", false},
		{"panic_on_warn=1", true},
		{"", true},
	} {
		has := slices.ContainsFunc(settings(c.cmdline, "/init"), func(s setting) bool { return s.name == "kernel/panic" })
		if has != c.panics {
			t.Errorf("%q: %v", c.cmdline, settings(c.cmdline, "/init"))
		}
	}
}

// TestMountsOnce: what is mounted is left alone; a second tmpfs on /run would
// hide the state partition from the warden.
func TestMountsOnce(t *testing.T) {
	if !isMountPoint("/proc") || isMountPoint("/proc/self") || isMountPoint("/does/not/exist") {
		t.Error("mount points are not told apart")
	}
	if problems := mountAPI([]apiMount{{"/proc", "no such file system", 0, ""}}); len(problems) > 0 {
		t.Errorf("mounted again: %v", problems)
	}
}
