package vm

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"reveille/boot/monitor"
	"reveille/boot/service"
)

// site is a server at an address that outlives it, as a process that is
// restarted from outside keeps its port.
type site struct {
	t      *testing.T
	server *httptest.Server
	addr   string
}

func newSite(t *testing.T) *site {
	s := &site{t: t}
	s.start("127.0.0.1:0")
	t.Cleanup(func() { s.stop() })
	return s
}

func (s *site) start(addr string) {
	s.t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.addr = l.Addr().String()
	s.server = httptest.NewUnstartedServer(New(http.StatusFailedDependency))
	s.server.Listener.Close()
	s.server.Listener = l
	s.server.Start()
}

func (s *site) stop() {
	s.server.CloseClientConnections()
	s.server.Config.Close() // which does not wait for who hangs
}

func (s *site) put(path string) {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPut, "http://"+s.addr+path, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	resp.Body.Close()
	if resp.StatusCode > 299 {
		s.t.Fatalf("PUT %s: %s", path, resp.Status)
	}
}

type here struct{}

func (here) See() monitor.Sight { return monitor.Sight{Text: "pid 7 runs"} }

// follow monitors the site until the test ends, and returns what is told.
func (s *site) follow(deadline time.Duration, watch bool) <-chan service.Report {
	probe := &service.Probe{
		Identity: &service.Identity{List: "http://" + s.addr + "/instances"},
		Interval: 500 * time.Millisecond, Timeout: 500 * time.Millisecond, Deadline: deadline,
	}
	if watch {
		probe.Identity.Watch = probe.Identity.List + "/watch"
		probe.Interval = time.Hour
	}
	told := make(chan service.Report, 1000)
	ctx, cancel := context.WithCancel(context.Background())
	var end sync.WaitGroup
	end.Go(func() {
		defer close(told)
		_ = monitor.Watch(ctx, monitor.Target{Service: service.Service{Alive: probe}, Witness: here{}}, func(r service.Report) { told <- r })
	})
	s.t.Cleanup(func() {
		cancel()
		end.Wait()
	})
	return told
}

// await reads reports until one is as it should be; gone is the last.
func await(t *testing.T, told <-chan service.Report, what string, ok func(service.Report) bool) service.Report {
	t.Helper()
	for {
		select {
		case r, open := <-told:
			switch {
			case !open:
				t.Fatalf("%s: never told", what)
			case ok(r):
				return r
			case r.Verdict == service.Gone:
				t.Fatalf("%s: told that it is gone: %s", what, r.Why)
			}
		case <-time.After(20 * time.Second):
			t.Fatalf("%s: not told in time", what)
		}
	}
}

func serves(n int) func(service.Report) bool {
	return func(r service.Report) bool { return r.Verdict == service.Alive && len(r.Instances) == n }
}

func is(v service.Verdict) func(service.Report) bool {
	return func(r service.Report) bool { return r.Verdict == v }
}

// TestEveryFaultHasItsVerdict: what passes is a doubt that ends, what lasts is
// a doubt that the deadline ends, and only the server's own word is evidence.
func TestEveryFaultHasItsVerdict(t *testing.T) {
	for _, tc := range []struct {
		kind, doubt, gone string // what is said; no doubt: it is gone at once
	}{
		{"garbage", "not the JSON that an identity probe wants", ""},
		{"500", "500 Internal Server Error", ""},
		{"delay", "no answer within 500ms", ""},
		{"hang", "no answer within 500ms", ""},
		{"close", "the connection was closed before the answer", ""},
		{"424", "", "424 Failed Dependency, no instance, and it had 3 instances: a, b, c"},
		{"410", "", "410 Gone, no instance, and it had 3 instances: a, b, c"},
		{"404", "", "404 Not Found, and it had 3 instances: a, b, c"},
	} {
		t.Run(tc.kind, func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			for _, id := range []string{"a", "b", "c"} {
				s.put("/instance/" + id)
			}
			told := s.follow(3*time.Second, false)
			await(t, told, "three instances", serves(3))
			asked := "GET http://" + s.addr + "/instances: "
			if tc.gone != "" {
				s.put("/fault?kind=" + tc.kind)
				if r := await(t, told, "gone", is(service.Gone)); r.Why != asked+tc.gone || len(r.Instances) != 3 {
					t.Errorf("told %q", r.Why)
				}
				return
			}
			s.put("/fault?kind=" + tc.kind + "&for=1.5")
			if r := await(t, told, "doubt", is(service.Unknown)); r.Why != asked+tc.doubt+"; pid 7 runs" {
				t.Errorf("told %q", r.Why)
			}
			await(t, told, "alive again", serves(3))
			s.put("/fault?kind=" + tc.kind)
			if r := await(t, told, "gone", is(service.Gone)); r.Why != "no clear answer for 3s, the last: "+asked+tc.doubt+"; pid 7 runs; it had 3 instances: a, b, c" {
				t.Errorf("told %q", r.Why)
			}
		})
	}
}

// TestRestartedBehindTheBack: the port answers again, and all is well but that
// it is another process, with other instances, or even with the same names.
func TestRestartedBehindTheBack(t *testing.T) {
	for _, again := range []int{0, 3} {
		t.Run(fmt.Sprint(again, " made anew"), func(t *testing.T) {
			t.Parallel()
			s := newSite(t)
			for _, id := range []string{"a", "b", "c"} {
				s.put("/instance/" + id)
			}
			told := s.follow(10*time.Second, false)
			was := await(t, told, "three instances", serves(3)).Server
			s.stop()
			await(t, told, "doubt", is(service.Unknown)) // refused, and the witness sees a process
			s.start(s.addr)
			for _, id := range []string{"a", "b", "c"}[:again] {
				s.put("/instance/" + id)
			}
			r := await(t, told, "gone", is(service.Gone))
			if again == 0 && !strings.HasSuffix(r.Why, "424 Failed Dependency, no instance, and it had 3 instances: a, b, c") ||
				again > 0 && !strings.Contains(r.Why, " now and was "+was+": it was started anew and has lost 3 instances: a, b, c") {
				t.Errorf("told %q", r.Why)
			}
		})
	}
}

// With a long poll, what happens is known when it happens, whatever the
// interval.
func TestLongPollHints(t *testing.T) {
	s := newSite(t)
	s.put("/instance/a")
	told := s.follow(3*time.Second, true)
	await(t, told, "one", serves(1))
	s.put("/instance/b")
	await(t, told, "two", serves(2))
	s.put("/instance/a/state?to=destroyed")
	await(t, told, "an end by order", func(r service.Report) bool { return serves(2)(r) && r.Instances[0].State == "destroyed" })
	s.stop()
	await(t, told, "doubt", is(service.Unknown))
	s.start(s.addr)
	await(t, told, "gone", is(service.Gone))
}

func TestStateMonitor(t *testing.T) {
	s := newSite(t)
	get := func(path string) (int, string) {
		resp, err := http.Get("http://" + s.addr + path)
		if err != nil {
			t.Error(err)
			return 0, ""
		}
		defer resp.Body.Close()
		var body [512]byte
		n, _ := resp.Body.Read(body[:])
		return resp.StatusCode, strings.TrimSpace(string(body[:n]))
	}
	if status, body := get("/instance/a/state-monitor?generation=0"); status != 424 || !strings.Contains(body, "NoInstance") {
		t.Errorf("of an instance that is not there: %d %s", status, body)
	}
	s.put("/instance/a")
	changed := make(chan string)
	go func() {
		_, body := get("/instance/a/state-monitor?generation=1")
		changed <- body
	}()
	s.put("/instance/a/state?to=rebooting")
	if got, want := <-changed, `{"id":"a","generation":2,"state":"rebooting"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
