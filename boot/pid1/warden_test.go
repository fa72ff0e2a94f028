package pid1

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reveille/boot/proc"
	"reveille/console"
)

// fakeInit is argv[0] of this test binary when it plays init; argv[1] is its
// role.
const fakeInit = "fake-init"

func runFakeInit() {
	i := newInit(Options{})
	i.note = os.NewFile(noteFD, "note")
	last, err := mapLastLog(os.NewFile(logFD, "log"))
	if err != nil {
		panic(err)
	}
	i.log.Tee(last.add)
	i.setStage(context.Background(), proc.Progress{Stage: "a stage with a long name"})
	i.setStage(context.Background(), proc.Progress{Stage: "config"})
	i.info("about to play %s", os.Args[1])
	switch os.Args[1] {
	case "panic":
		go func() { panic("init panics") }()
		select {}
	case "maprace":
		m := map[int]int{}
		for range 8 {
			go func() {
				for n := 0; ; n++ {
					m[n%8] = n
				}
			}()
		}
		select {}
	case "killed":
		syscall.Kill(os.Getpid(), syscall.SIGKILL)
	case "obeys":
		// Far longer than it takes a signal to come through.
		time.Sleep(300 * time.Millisecond)
		heard := make(chan os.Signal, 1)
		signal.Notify(heard, asked()...)
		unix.Close(readyFD)
		<-heard
		os.Exit(6)
	}
}

func newWarden(role string) *warden {
	return &warden{options: Options{BuildID: "test", Program: "/proc/self/exe", InitArgs: []string{fakeInit, role}}, began: console.BootTime()}
}

// TestWardenKnowsWhy wants init's death explained from what it left in memory.
func TestWardenKnowsWhy(t *testing.T) {
	for _, c := range []struct{ role, reason, trace, status string }{
		{"panic", "panic: init panics", "pid1.runFakeInit.func", "exit status 2"},
		{"maprace", "fatal error: concurrent map writes", "pid1.runFakeInit.func", "exit status 2"},
		{"killed", "signal 9 (killed)", "", "signal 9 (killed)"},
	} {
		t.Run(c.role, func(t *testing.T) {
			w := newWarden(c.role)
			if err := w.start(); err != nil {
				t.Fatal(err)
			}
			r := w.report(w.await())
			if r.Reason != c.reason || r.Facts.Stage != "config" || r.Facts.WaitStatus != c.status {
				t.Errorf("reason %q, stage %q, status %q", r.Reason, r.Facts.Stage, r.Facts.WaitStatus)
			}
			if !strings.Contains(r.Trace, c.trace) {
				t.Errorf("no %s in the trace:\n%s", c.trace, r.Trace)
			}
			if log := string(readLastLog(w.log)); !strings.HasSuffix(log, "] init          I about to play "+c.role+"\n") {
				t.Errorf("the log ends %q", log)
			}
			said := string(spoken(r))
			if !strings.Contains(said, "crash         C init crashed: "+c.reason) || strings.Contains(strings.ReplaceAll(said, "\r\n", ""), "\n") {
				t.Errorf("spoken: %q", said)
			}
		})
	}
}

// TestWardenForwards: a signal to PID 1 is init's, and does not kill an init
// that does not hear signals yet.
func TestWardenForwards(t *testing.T) {
	w := newWarden("obeys")
	if err := w.start(); err != nil {
		t.Fatal(err)
	}
	heard := make(chan os.Signal, 2)
	go w.forward(heard)
	heard <- unix.SIGHUP // means nothing: must not reach init
	heard <- unix.SIGUSR2
	if ws := w.await(); ws.ExitStatus() != 6 {
		t.Errorf("init ended with %v", proc.ExitOf(ws, 0))
	}
	heard <- unix.SIGTERM
	for deadline := time.Now().Add(5 * time.Second); !w.hurry.Load(); {
		if time.Now().After(deadline) {
			t.Fatal("a signal after init's death hurries nobody")
		}
	}
	close(heard)
}

func TestStartWithoutInit(t *testing.T) {
	w := newWarden("")
	w.options.Program = "/does/not/exist"
	if err := w.start(); err == nil {
		t.Error("started nothing")
	}
}

// slowPort takes so many bytes a look, up to a total; then it is dead.
type slowPort struct {
	mu          sync.Mutex
	got         bytes.Buffer
	each, total int
}

func (p *slowPort) Write(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := min(len(b), p.each, p.total-p.got.Len())
	p.got.Write(b[:n])
	if n == 0 {
		return -1, unix.EAGAIN
	}
	return n, nil
}

func (p *slowPort) Queued() (int, error) { return 0, nil }
func (p *slowPort) Flush() error         { return nil }
func (p *slowPort) Close() error         { return nil }

// TestPour gives a text to a console that takes all of it, slowly, and to one
// that dies: neither holds the warden beyond its bound.
func TestPour(t *testing.T) {
	text := []byte(strings.Repeat("0123456789", 100))
	var all sync.WaitGroup
	for _, c := range []struct {
		name        string
		each, total int
		most        time.Duration
	}{
		{"slow", 100, 1 << 20, 2 * time.Second},
		{"dies", 100, 200, mute + time.Second},
		{"dead", 0, 0, mute + time.Second},
	} {
		all.Go(func() {
			port := &slowPort{each: c.each, total: c.total}
			begun := time.Now()
			if sent := pour(t.Context(), port, text); sent != (c.total > 0) {
				t.Errorf("%s: sent %t", c.name, sent)
			}
			if took := time.Since(begun); took > c.most {
				t.Errorf("%s: took %s", c.name, took)
			}
			if want := text[:min(len(text), c.total)]; !bytes.Equal(port.got.Bytes(), want) {
				t.Errorf("%s: got %d bytes, want %d", c.name, port.got.Len(), len(want))
			}
		})
	}
	all.Wait()
}

// TestSpeakTwice: a port that cannot be opened, or sends nothing, has a second
// chance, and one that sent something is not told the same again.
func TestSpeakTwice(t *testing.T) {
	text := []byte("init crashed")
	dead, live := &slowPort{}, &slowPort{each: 100, total: 100}
	for _, c := range []struct {
		name  string
		ports []*slowPort // by attempt; nil: no such device
		opens int
	}{
		{"lives", []*slowPort{live}, 1},
		{"no device at first", []*slowPort{nil, {each: 100, total: 100}}, 2},
		{"silent at first", []*slowPort{dead, {each: 100, total: 100}}, 2},
		{"dies in the middle", []*slowPort{{each: 4, total: 8}}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			opens := 0
			speakOn(t.Context(), func() (console.Port, error) {
				port := c.ports[opens]
				if opens++; port == nil {
					return nil, unix.ENODEV
				}
				return port, nil
			}, text)
			if opens != c.opens {
				t.Errorf("opened %d times", opens)
			}
			last := c.ports[len(c.ports)-1]
			if got := last.got.Bytes(); len(got) == 0 || !bytes.HasPrefix(text, got) {
				t.Errorf("sent %q", got)
			}
		})
	}
}

// TestSpokenIsBounded: a huge trace is cut for consoles.
func TestSpokenIsBounded(t *testing.T) {
	r := console.CrashReport{Summary: []string{"init crashed: why"}, Trace: strings.Repeat(fmt.Sprintln("frame"), 1<<16)}
	if n := len(spoken(r)); n > 2*maxSpoken {
		t.Errorf("%d bytes", n)
	}
}
