package console

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"reveille/internal/synctest"
)

// controller is an entry of a directory, as a careless caller logs it.
type controller struct {
	Name    string
	Address string
	Key     []byte
	labels  map[string]string
}

const many = 10_000

func directory() (all []controller) {
	for i := range many {
		all = append(all, controller{Name: fmt.Sprintf("controller-%d", i), Address: fmt.Sprintf("[fd00::%x]:7443", i),
			Key: make([]byte, 32), labels: map[string]string{"rack": fmt.Sprint(i)}})
	}
	return all
}

// intoLog is a packet connection whose other end is a log.
type intoLog struct{ log *Log }

func (w intoLog) Write(p []byte) (int, error) {
	e, err := DecodePacket(p)
	if err == nil {
		w.log.Add(e)
	}
	return len(p), err
}

// careless are ways to log a collection that a caller must not need to know
// better than.
var careless = []struct {
	name string
	log  func(*slog.Logger, []controller)
	// most is the number of console lines that it may take; 0: what the console
	// holds back and shows in the meantime, see mostOf.
	most int
}{
	{"a slice as an attribute", func(l *slog.Logger, all []controller) { l.Info("directory", "controllers", all) }, 6},
	{"a slice of pointers", func(l *slog.Logger, all []controller) {
		var p []*controller
		for i := range all {
			p = append(p, &all[i])
		}
		l.Info("directory", "controllers", p)
	}, 6},
	{"a map", func(l *slog.Logger, all []controller) { l.Warn("directory", "controllers", byName(all)) }, 6},
	{"a structure that holds it", func(l *slog.Logger, all []controller) {
		l.Info("directory", slog.Group("cluster", "all", struct{ Controllers []controller }{all}))
	}, 6},
	{"printed with %v", func(l *slog.Logger, all []controller) { l.Info(fmt.Sprintf("directory: %v", all)) }, 6},
	{"a map printed with %+v", func(l *slog.Logger, all []controller) { l.Error(fmt.Sprintf("directory: %+v", byName(all))) }, 6},
	{"one text of many lines", func(l *slog.Logger, all []controller) {
		var b strings.Builder
		for _, c := range all {
			fmt.Fprintln(&b, c.Name, c.Address)
		}
		l.Info("directory:\n" + b.String())
	}, 6},
	{"an error of many errors", func(l *slog.Logger, all []controller) {
		var errs []string
		for _, c := range all {
			errs = append(errs, "dial "+c.Address+": connection refused")
		}
		l.Error("join", "err", fmt.Errorf("no endpoint answers: %s", strings.Join(errs, "; ")))
	}, 6},
	{"a line each", func(l *slog.Logger, all []controller) {
		for _, c := range all {
			l.Info("controller", "name", c.Name, "address", c.Address)
		}
	}, burstLines + notices},
	{"a line each, two milliseconds apart", func(l *slog.Logger, all []controller) {
		for _, c := range all {
			l.Info("controller", "name", c.Name, "address", c.Address)
			time.Sleep(2 * time.Millisecond)
		}
	}, burstLines + 20*steadyLines + notices},
	{"a line and a warning each", func(l *slog.Logger, all []controller) {
		for _, c := range all {
			l.Info("controller", "name", c.Name, "address", c.Address)
			l.Warn("dial", "name", c.Name, "address", c.Address)
		}
	}, 2*burstLines + notices},
	{"an error each", func(l *slog.Logger, all []controller) {
		for _, c := range all {
			l.Error("controller", "name", c.Name, "address", c.Address)
		}
	}, 0},
}

// notices are the lines that tell what is not shown, one in noticeEvery.
const notices = 8

func byName(all []controller) map[string]controller {
	m := map[string]controller{}
	for _, c := range all {
		m[c.Name] = c
	}
	return m
}

// mostOf is how many lines may come of a loop of errors, however many it logs:
// what waits for 8 s of the console's time, and notices of what is not shown.
func mostOf(rate float64) int {
	const line = len("[    0.000] join          I controller name=controller-1 address=[fd00::1]:7443\r\n")
	return int(min(max(rate*backlogTime.Seconds(), minBacklog), maxBacklog))/(line-20) + notices
}

// Whoever logs a directory of 10,000 controllers: a bounded number of lines on
// every console, fast or slow, and every record of it accounted for.
func TestCarelessCallers(t *testing.T) {
	all := directory()
	for _, caller := range careless {
		t.Run(caller.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				boundedLines(t, caller.most, func(l *slog.Logger) { caller.log(l, all) })
			})
		})
	}
}

// boundedLines has someone log when four consoles are up, whose rates are known,
// and counts the lines that come of it.
func boundedLines(t *testing.T, most int, careless func(*slog.Logger)) {
	start := time.Now()
	log := NewLog(DefaultLimits(), func() time.Duration { return time.Since(start) })
	e := NewEngine(log, Options{Threshold: Info})
	defer e.Close(context.Background())
	var ports []*fakePort
	rates := []float64{200, 960, 11520, 64 << 10}
	for i, rate := range rates {
		p := newFakePort(rate)
		ports = append(ports, p)
		e.Add(Spec{Name: fmt.Sprint("ttyS", i), Kind: Serial, Baud: int(rate) * 10}, p.opener())
	}
	for i := range many {
		log.Append("warm", Info, fmt.Sprint("line ", i))
	}
	settle(e)
	var before []int
	for _, p := range ports {
		before = append(before, len(p.text()))
	}
	careless(slog.New(NewHandler(intoLog{log}, "join", slog.LevelDebug)))
	settle(e)
	for i, s := range e.Stats() {
		text := ports[i].text()
		shown, counted := account(text, "")
		if shown+counted != s.Logged || s.Waiting != 0 {
			t.Errorf("%s: %d lines and %d counted of %d", s.Name, shown, counted, s.Logged)
		}
		text = text[before[i]:]
		if n := strings.Count(text, "\n"); n == 0 || n > cmp.Or(most, mostOf(rates[i])) {
			t.Errorf("%s: %d lines:\n%.2000s", s.Name, n, text)
		} else {
			t.Logf("%s: %d lines", s.Name, n)
		}
	}
}

// What is typed right says how many there are, and names a few.
func TestExamplesOfMany(t *testing.T) {
	var names []string
	for _, c := range directory() {
		names = append(names, c.Name)
	}
	if got, want := Examples("controllers", names, 3), "10000 controllers: controller-0, controller-1, controller-2 and 9997 more"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
