package supervise

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"pgregory.net/rapid"

	"reveille/boot/proc"
	"reveille/boot/service"
)

// world is what a Machine acts on: processes that obey, or do not, in any order
// and at any time.
type world struct {
	t       failer
	m       *Machine
	now     time.Duration
	wishes  map[string]Wish
	kept    map[string]Kept
	alive   map[service.Ref]bool // its process runs, or its remains are there
	running map[service.Ref]bool // its process runs
	stuck   map[service.Ref]bool // in D state: nothing ends it
	ran     map[string]bool      // an incarnation of it has run that is never to be restarted
	obeyed  map[string]uint64    // Wish.Starts at the last start
	exits   map[service.Ref]proc.Exit
	left    map[service.Ref]bool // it left processes, which still run
	litters map[service.Ref]bool // it left processes
	pending []func()             // what the shell will tell, in any order
}

type failer interface{ Fatalf(string, ...any) }

func newWorld(t failer) *world {
	return &world{
		t: t, m: NewMachine("boot"), now: time.Second, wishes: map[string]Wish{}, kept: map[string]Kept{},
		alive: map[service.Ref]bool{}, running: map[service.Ref]bool{}, stuck: map[service.Ref]bool{},
		ran: map[string]bool{}, obeyed: map[string]uint64{}, exits: map[service.Ref]proc.Exit{},
		left: map[service.Ref]bool{}, litters: map[service.Ref]bool{},
	}
}

// do is the shell: it keeps what is to be kept, then acts.
func (w *world) do(acts []Action) {
	for _, k := range w.m.Changed() {
		w.kept[k.Service] = k
	}
	for _, a := range acts {
		switch a.Verb {
		case Start:
			w.start(a)
		case Signal:
			if !w.stuck[a.Ref] && a.Ref.Incarnation%2 == 0 { // the others ignore it
				w.die(a.Ref, proc.Exit{Code: -1, Signal: int(a.Signal)})
			}
		case Kill:
			if !w.stuck[a.Ref] {
				w.die(a.Ref, proc.Exit{Code: -1, Signal: 9})
			}
		case Examine:
			w.later(func() {
				var r Remains
				if w.left[a.Ref] {
					r.Total = 1
				}
				w.do(w.m.Examined(w.now, a.Ref, r))
			})
		case Bury:
			if w.running[a.Ref] {
				w.t.Fatalf("%s is buried alive", a.Ref)
			}
			delete(w.left, a.Ref)
			w.later(func() { delete(w.alive, a.Ref); w.do(w.m.Buried(w.now, a.Ref, "")) })
		}
	}
	if next := w.m.Next(); w.m.desired && (next == 0 || next > w.now) { // else a tick comes first
		w.check()
	}
}

func (w *world) later(f func()) { w.pending = append(w.pending, f) }

func (w *world) start(a Action) {
	for other := range w.alive {
		if other.Service == a.Ref.Service {
			w.t.Fatalf("%s is started beside %s", a.Ref, other)
		}
	}
	if w.alive[a.Ref] {
		w.t.Fatalf("%s is started twice", a.Ref)
	}
	name, wish := a.Ref.Service, w.wishes[a.Ref.Service]
	if a.Service.Restart == service.Never && w.ran[name] && wish.Starts <= w.obeyed[name] {
		w.t.Fatalf("%s is never to be restarted, and is", a.Ref)
	}
	for _, need := range a.Service.Needs {
		if !w.m.isReady(need) {
			w.t.Fatalf("%s is started without %s", a.Ref, need)
		}
	}
	w.alive[a.Ref] = true
	w.later(func() { // init does it: from here on the wish is obeyed
		w.ran[name] = w.ran[name] || a.Service.Restart == service.Never
		w.running[a.Ref], w.obeyed[name] = true, wish.Starts
		w.later(func() { w.do(w.m.Started(w.now, a.Ref, w.now)) })
	})
}

func (w *world) die(ref service.Ref, e proc.Exit) {
	if !w.running[ref] {
		return
	}
	delete(w.running, ref)
	w.exits[ref] = e
	w.later(func() { w.do(w.m.Exited(w.now, ref, e, "")) })
}

// crash is a new agent: what the old one had heard is forgotten, and what it
// had begun is as far as it came.
func (w *world) crash() {
	w.pending = nil
	var rows []proc.Process
	for _, ref := range refs(w.alive) {
		e, dead := w.exits[ref]
		if !w.running[ref] && !dead {
			delete(w.alive, ref) // its start did not reach init
			continue
		}
		p := proc.Process{Spec: proc.Spec{Name: ref.Service, Incarnation: ref.Incarnation, Generation: ref.Generation}}
		if dead {
			p.Exit = &e
		}
		rows = append(rows, p)
	}
	w.m = NewMachine("boot")
	w.do(w.m.Adopt(w.now, values(w.kept), rows, func(Kept, proc.Exit) string { return "" }))
	w.desire()
	w.pass(0)
	for _, ref := range refs(w.exits) {
		if w.alive[ref] { // init tells all exits again
			w.later(func() { w.do(w.m.Exited(w.now, ref, w.exits[ref], "")) })
		}
	}
}

func (w *world) desire() {
	w.do(w.m.Desired(w.now, values(w.wishes)))
}

// check holds what must hold always.
func (w *world) check() {
	for _, s := range w.m.Status() {
		u := w.m.units[s.Service]
		if s.State != Running && s.Reason == "" && u.wish.Name != "" {
			w.t.Fatalf("%s is %s, nobody says why", s.Ref, s.State)
		}
		if (s.State == Backoff || s.State == Held) && s.Next == 0 {
			w.t.Fatalf("%s is %s for ever", s.Ref, s.State)
		}
		if s.State == Done && w.litters[s.Ref] {
			w.t.Fatalf("%s is done, and left a process behind", s.Ref)
		}
		if s.State != Stopping {
			continue
		}
		over := w.now - s.Since - u.Run.Stop.Timeout
		if over > 0 && u.Kills == 0 {
			w.t.Fatalf("%s: %s past its deadline nobody killed it", s.Ref, over)
		}
		if over > killBound && !strings.Contains(s.Reason, "cannot be killed") {
			w.t.Fatalf("%s cannot be killed and nobody says so: %s", s.Ref, s.Reason)
		}
	}
}

// pass lets time pass, and the clock strike on the way.
func (w *world) pass(d time.Duration) {
	for end := w.now + d; ; {
		at := w.m.Next()
		if at == 0 || at > end {
			w.now = end
			return
		}
		w.now = max(w.now, at)
		w.do(w.m.Tick(w.now))
		if next := w.m.Next(); next != 0 && next <= w.now {
			w.t.Fatalf("a tick leaves something due: at %s, now %s", next, w.now)
		}
	}
}

// calm tells all there is to tell.
func (w *world) calm() {
	for range 1000 {
		if len(w.pending) == 0 {
			return
		}
		f := w.pending[0]
		w.pending = w.pending[1:]
		f()
	}
	w.t.Fatalf("it does not come to rest")
}

func refs[V any](of map[service.Ref]V) []service.Ref {
	all := slices.Collect(maps.Keys(of))
	slices.SortFunc(all, func(a, b service.Ref) int { return strings.Compare(a.String(), b.String()) })
	return all
}

func values[V any](of map[string]V) (all []V) {
	for _, name := range slices.Sorted(maps.Keys(of)) {
		all = append(all, of[name])
	}
	return all
}

var names = []string{"a", "b", "c", "d"}

func drawWish(t *rapid.T, n int) Wish {
	w := Wish{Service: service.Service{
		Name: names[n], Digest: rapid.SampledFrom([]string{"1", "2"}).Draw(t, "digest"),
		Restart: rapid.SampledFrom([]service.Policy{service.Never, service.OnFailure, service.Always}).Draw(t, "restart"),
		Stop:    service.Stop{Signal: syscall.SIGTERM, Timeout: 10 * time.Second},
	}, Stopped: rapid.IntRange(0, 4).Draw(t, "stopped") == 0}
	if rapid.Bool().Draw(t, "probe") {
		w.Ready = &service.Probe{TCP: "localhost:1"}
	}
	if n > 0 && rapid.Bool().Draw(t, "need") { // no cycles: service checks that
		w.Needs = []string{names[n-1]}
	}
	return w
}

// TestMachine throws random events at services, kills the agent between any
// two of them, and wants what DESIGN promises at each moment; in the end, when
// the world obeys, everything that may run does.
func TestMachine(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		t.Repeat(map[string]func(*rapid.T){
			"wish": func(t *rapid.T) {
				n := rapid.IntRange(0, len(names)-1).Draw(t, "service")
				old := w.wishes[names[n]]
				wish := drawWish(t, n)
				wish.Starts = old.Starts
				if old.Restart != "" { // one that changes is another service
					wish.Restart = old.Restart
				}
				w.wishes[names[n]] = wish
				w.desire()
			},
			"ask": func(t *rapid.T) {
				name := rapid.SampledFrom(names).Draw(t, "service")
				if wish, ok := w.wishes[name]; ok {
					wish.Starts++
					w.wishes[name] = wish
					w.desire()
				}
			},
			"unwish": func(t *rapid.T) {
				name := rapid.SampledFrom(names).Draw(t, "service")
				wish := w.wishes[name]
				if wish.Starts > 0 { // a count that starts anew asks for nothing
					t.Skip("asked for already")
				}
				delete(w.wishes, name)
				w.desire()
			},
			"tell": func(t *rapid.T) {
				if len(w.pending) == 0 {
					t.Skip("nothing to tell")
				}
				i := rapid.IntRange(0, len(w.pending)-1).Draw(t, "which")
				f := w.pending[i]
				w.pending = slices.Delete(w.pending, i, i+1)
				f()
			},
			"die": func(t *rapid.T) {
				if len(w.running) == 0 {
					t.Skip("nobody runs")
				}
				ref := rapid.SampledFrom(refs(w.running)).Draw(t, "who")
				if rapid.Bool().Draw(t, "litters") {
					w.left[ref], w.litters[ref] = true, true
				}
				w.die(ref, proc.Exit{Code: rapid.IntRange(0, 1).Draw(t, "status")})
			},
			"stick": func(t *rapid.T) {
				if len(w.running) == 0 {
					t.Skip("nobody runs")
				}
				ref := rapid.SampledFrom(refs(w.running)).Draw(t, "who")
				w.stuck[ref] = true
			},
			"report": func(t *rapid.T) {
				if len(w.running) == 0 {
					t.Skip("nobody runs")
				}
				ref := rapid.SampledFrom(refs(w.running)).Draw(t, "who")
				v := rapid.SampledFrom([]service.Verdict{service.Alive, service.Alive, service.Unknown, service.Gone}).Draw(t, "verdict")
				w.do(w.m.Report(w.now, service.Report{Ref: ref, Verdict: v, Ready: v == service.Alive, Why: "so it is"}))
			},
			"monitor ends": func(t *rapid.T) {
				if len(w.running) == 0 {
					t.Skip("nobody runs")
				}
				w.do(w.m.MonitorEnded(w.now, rapid.SampledFrom(refs(w.running)).Draw(t, "who"), "so it is"))
			},
			"crash": func(*rapid.T) { w.crash() },
			"pass": func(t *rapid.T) {
				w.pass(time.Duration(rapid.IntRange(0, 60_000).Draw(t, "ms")) * time.Millisecond)
			},
			"": func(*rapid.T) {},
		})
		w.allRun()
	})
}

// allRun wants every service to run that may, in a world that obeys from now
// on; what is stuck stays, and is nobody's matter but its own.
func (w *world) allRun() {
	for range 3 * len(names) {
		w.calm()
		for _, ref := range refs(w.running) {
			w.do(w.m.Report(w.now, service.Report{Ref: ref, Verdict: service.Alive, Ready: true}))
		}
		w.pass(cooldown + time.Second)
	}
	w.calm()
	for name, wish := range w.wishes {
		u := w.m.units[name]
		free := !wish.Stopped && u.Spent == "" && !w.stuck[u.Ref] && !u.outdated()
		for _, need := range wish.Needs {
			free = free && w.m.isReady(need)
		}
		if free && u.State != Running {
			w.t.Fatalf("%s is %s: %s", u.Ref, u.State, u.Reason)
		}
		if wish.Stopped && u.State != Stopped && !w.stuck[u.Ref] {
			w.t.Fatalf("%s is to be stopped and is %s: %s", u.Ref, u.State, u.Reason)
		}
	}
}

// story is a world that is told what happens, and what it is then.
type story struct {
	*world
	t *testing.T
}

func tell(t *testing.T, wishes ...Wish) story {
	s := story{newWorld(t), t}
	for _, w := range wishes {
		if w.Restart == "" {
			w.Restart = service.OnFailure
		}
		w.Stop = service.Stop{Signal: syscall.SIGTERM, Timeout: 10 * time.Second}
		s.wishes[w.Name] = w
	}
	s.desire()
	s.calm()
	return s
}

func (s story) ref(name string) service.Ref { return s.m.units[name].Ref }

func (s story) exit(name string, e proc.Exit) {
	s.die(s.ref(name), e)
	s.calm()
}

func (s story) is(name string, state State, reason string) {
	s.t.Helper()
	for _, st := range s.m.Status() {
		if st.Service == name {
			if st.State != state || st.Reason != reason {
				s.t.Errorf("%s is %s: %q, want %s: %q", name, st.State, st.Reason, state, reason)
			}
			return
		}
	}
	s.t.Errorf("%s is not there", name)
}

func wish(name string, restart service.Policy, needs ...string) Wish {
	return Wish{Service: service.Service{Name: name, Restart: restart, Needs: needs}}
}

func TestNeverIsFailed(t *testing.T) {
	s := tell(t, wish("vm", service.Never))
	s.do(s.m.Report(s.now, service.Report{Ref: s.ref("vm"), Verdict: service.Alive, Instances: []service.Instance{{ID: "1"}, {ID: "2"}, {ID: "3", State: "destroyed"}}}))
	s.exit("vm", proc.Exit{Code: -1, Signal: 9})
	s.pass(time.Hour)
	s.is("vm", Failed, "signal 9 (killed), and with it 2 instances")
	w := s.wishes["vm"]
	w.Starts++
	s.wishes["vm"] = w
	s.desire()
	s.calm()
	s.is("vm", Running, "")
	if got := s.ref("vm").Incarnation; got != 2 {
		t.Errorf("incarnation %d", got)
	}
}

func TestBackoffAndHold(t *testing.T) {
	s := tell(t, wish("etcd", service.OnFailure), wish("web", service.OnFailure, "etcd"))
	s.is("web", Running, "")
	var pauses []string
	for range manyFails {
		s.exit("etcd", proc.Exit{Code: 1})
		pauses = append(pauses, (s.m.Next() - s.now).String())
		if s.m.units["etcd"].State == Backoff {
			s.pass(s.m.Next() - s.now)
			s.calm()
		}
	}
	if got, want := strings.Join(pauses, " "), "1s 2s 4s 8s 16s 32s 1m0s 1m0s 1m0s 10m0s"; got != want {
		t.Errorf("pauses %s, want %s", got, want)
	}
	s.is("etcd", Held, "10 failures in 10m0s, the last: exit status 1")
	s.exit("web", proc.Exit{Code: 1}) // for want of etcd: no failure of its own
	s.is("web", Backoff, "exit status 1, while it lacked what it needs")
	s.pass(2 * time.Second)
	s.is("web", Waiting, "needs etcd (held: 10 failures in 10m0s, the last: exit status 1)")
	if n := len(s.m.units["web"].Fails); n != 0 {
		t.Errorf("%d failures of web", n)
	}
	s.pass(cooldown)
	s.calm()
	s.is("etcd", Running, "")
	s.is("web", Running, "")
	s.pass(stable)
	s.exit("etcd", proc.Exit{Code: 1})
	if got := s.m.Next() - s.now; got != firstBackoff {
		t.Errorf("after it was stable, the pause is %s", got)
	}
}

func TestStopEnds(t *testing.T) {
	s := tell(t, wish("deaf", service.Always), wish("well", service.Always))
	s.stuck[s.ref("deaf")] = true
	w := s.wishes["deaf"]
	w.Stopped = true
	s.wishes["deaf"] = w
	s.desire()
	s.is("deaf", Stopping, "it was stopped by an operator")
	s.pass(10 * time.Second)
	s.pass(killBound)
	s.is("deaf", Stopping, "cannot be killed: still there 5s after SIGKILL; it was stopped by an operator")
	s.is("well", Running, "")
	delete(s.stuck, s.ref("deaf"))
	s.pass(killAgain)
	s.calm()
	s.is("deaf", Stopped, "it was stopped by an operator; signal 9 (killed), as it did not end within 10s of SIGTERM")
}

// TestDone: what ended well by itself was to end, unless a probe says that it
// was to go on.
func TestDone(t *testing.T) {
	asked := wish("asked", service.OnFailure)
	asked.Alive = &service.Probe{TCP: "localhost:1"}
	s := tell(t, wish("job", service.OnFailure), wish("once", service.Never), asked, wish("bad", service.Never))
	for _, name := range []string{"job", "once", "asked"} {
		s.exit(name, proc.Exit{})
	}
	s.exit("bad", proc.Exit{Code: 1})
	s.crash() // and the next agent says the same
	s.pass(time.Hour)
	s.is("job", Done, "it ended by itself: exit status 0")
	s.is("once", Done, "it ended by itself: exit status 0")
	s.is("asked", Stopped, "it ended by itself: exit status 0")
	well := []string{}
	for _, st := range s.m.Status() {
		if st.Healthy() {
			well = append(well, st.Service)
		}
	}
	if got := strings.Join(well, " "); got != "job once" {
		t.Errorf("well: %s", got)
	}
}

// TestLeftBehind: an end that left something behind is no good one, also if the
// agent dies when it is removed and not yet told.
func TestLeftBehind(t *testing.T) {
	s := tell(t, wish("daemon", service.OnFailure))
	daemon := s.ref("daemon")
	s.left[daemon], s.litters[daemon] = true, true
	s.die(daemon, proc.Exit{})
	for s.left[daemon] {
		next := s.pending[0]
		s.pending = s.pending[1:]
		next()
	}
	s.crash()
	s.calm()
	s.is("daemon", Backoff, "exit status 0, and left 1 process behind, which were killed")
}

// TestUnknownIncarnation: what runs and was not kept is left alone, and its
// number, under which its cgroup is, is not used again.
func TestUnknownIncarnation(t *testing.T) {
	m := NewMachine("boot")
	m.Adopt(0, nil, []proc.Process{{Spec: proc.Spec{Name: "vm", Incarnation: 3}, PID: 7}}, nil)
	for _, a := range m.Desired(0, []Wish{wish("vm", service.Never)}) {
		if a.Ref.Incarnation != 4 {
			t.Errorf("%s", a)
		}
	}
	if got := m.units["vm"].State; got != Starting { // init refuses it
		t.Errorf("it is %s", got)
	}
}

// TestVerdictEndsWithTheMonitor: nobody says that the dead are alive.
func TestVerdictEndsWithTheMonitor(t *testing.T) {
	s := tell(t, wish("vm", service.Never))
	s.do(s.m.Report(s.now, service.Report{Ref: s.ref("vm"), Verdict: service.Alive}))
	s.exit("vm", proc.Exit{Code: -1, Signal: 9})
	if st := s.m.Status()[0]; st.State != Failed || st.Verdict != "" {
		t.Errorf("%s, %q", st.State, st.Verdict)
	}
}

func TestChangedDefinition(t *testing.T) {
	s := tell(t, wish("vm", service.Never), wish("web", service.OnFailure))
	for name, w := range s.wishes {
		w.Digest = "new"
		s.wishes[name] = w
	}
	s.desire()
	s.pass(10 * time.Second) // it ignores SIGTERM
	s.calm()
	s.is("web", Running, "")
	s.is("vm", Running, "its definition changed, and the old one still runs: it is never restarted unless a new incarnation is asked for")
	if got := fmt.Sprint(s.ref("web"), s.ref("vm")); got != "web#2vm#1" && got != "web#2 vm#1" {
		t.Errorf("incarnations %s", got)
	}
}

func TestGone(t *testing.T) {
	s := tell(t, wish("vm", service.Never))
	ref := s.ref("vm")
	s.do(s.m.Report(s.now, service.Report{Ref: ref, Verdict: service.Gone, Why: "it answers as another server", Instances: []service.Instance{{ID: "1"}}}))
	s.calm()
	s.is("vm", Failed, "it answers as another server")
}
