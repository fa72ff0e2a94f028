package monitor

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"reveille/boot/service"
)

const interval = time.Second

func identity() *service.Probe {
	return &service.Probe{Identity: &service.Identity{List: "http://127.0.0.1:1/list"}, Interval: interval, Timeout: interval, Deadline: 60 * time.Second, Failures: 3}
}

func plain() *service.Probe {
	return &service.Probe{HTTP: &service.HTTP{URL: "http://127.0.0.1:1/"}, Interval: interval, Timeout: interval, Deadline: 60 * time.Second, Failures: 3}
}

func one(id, state string, generation uint64) service.Instance {
	return service.Instance{ID: id, State: state, Generation: generation}
}

func listOf(server string, all ...service.Instance) answer {
	return answer{kind: well, text: "asked", list: &list{Server: server, Instances: all}}
}

func runs() Sight { return Sight{Text: "pid 7 runs"} }

// TestVerdicts is the judge's table: what an answer means, by what the service
// had when it was last asked.
func TestVerdicts(t *testing.T) {
	two := []service.Instance{one("a", "running", 3), one("b", "running", 1)}
	said := func(k kind, text string) answer { return answer{kind: k, text: text} }
	for name, tc := range map[string]struct {
		probe   *service.Probe
		known   []service.Instance
		server  string
		answer  answer
		ended   bool
		verdict service.Verdict
		next    time.Duration
		why     string
	}{
		"first list":                 {identity(), nil, "", listOf("s", two...), false, service.Alive, interval, ""},
		"same list":                  {identity(), two, "s", listOf("s", two...), false, service.Alive, interval, ""},
		"one more, a later one":      {identity(), two, "s", listOf("s", one("a", "stopping", 4), two[1], one("c", "creating", 1)), false, service.Alive, interval, ""},
		"another server":             {identity(), two, "s", listOf("z", two...), false, service.Gone, 0, "asked: it is z now and was s: it was started anew and has lost 2 instances: a, b"},
		"another server, none had":   {identity(), nil, "s", listOf("z"), false, service.Gone, 0, "asked: it is z now and was s: it was started anew and has lost no instance"},
		"lost one":                   {identity(), two, "s", listOf("s", two[0]), false, service.Gone, 0, "asked: it does not know instance b any more; it had 2 instances: a, b"},
		"lost all":                   {identity(), two, "s", listOf("s"), false, service.Gone, 0, "asked: it does not know 2 instances: a, b any more"},
		"one was destroyed":          {identity(), []service.Instance{one("a", "destroyed", 5), two[1]}, "s", listOf("s", two[1]), false, service.Alive, interval, ""},
		"one was stopped":            {identity(), []service.Instance{one("a", "Stopped", 5)}, "s", listOf("s"), false, service.Alive, interval, ""},
		"a generation fell":          {identity(), two, "s", listOf("s", one("a", "running", 2), two[1]), false, service.Gone, 0, "asked: instance a went back from generation 3 to 2; it had 2 instances: a, b"},
		"no instance, had some":      {identity(), two, "s", said(noneHere, "424"), false, service.Gone, 0, "424, and it had 2 instances: a, b"},
		"no instance, had one ended": {identity(), []service.Instance{one("a", "failed", 9)}, "s", said(noneHere, "424"), false, service.Alive, interval, ""},
		"no instance, had none":      {identity(), nil, "", said(noneHere, "424"), false, service.Alive, interval, ""},
		"not found, had some":        {identity(), two[:1], "s", said(notFound, "404"), false, service.Gone, 0, "404, and it had instance a"},
		"not found, had none":        {identity(), nil, "", said(notFound, "404"), false, service.Unknown, leastDelay, "404; pid 7 runs"},
		"gives itself up, had two":   {identity(), two, "s", said(givesUp, "trigger"), false, service.Gone, 0, "trigger; pid 7 runs; it had 2 instances: a, b"},
		"unclear":                    {identity(), two, "s", said(unclear, "500"), false, service.Unknown, leastDelay, "500; pid 7 runs"},
		"unclear, no process":        {identity(), two, "s", said(unclear, "refused"), true, service.Unknown, leastDelay, "refused; no process"},
		"plain, well":                {plain(), nil, "", said(well, ""), false, service.Alive, interval, ""},
		"plain, a clear no":          {plain(), nil, "", said(sick, "503"), false, service.Unknown, interval, "503; pid 7 runs"},
		"plain, unclear":             {plain(), nil, "", said(unclear, "refused"), false, service.Unknown, interval, "refused; pid 7 runs"},
		"plain, no process":          {plain(), nil, "", said(unclear, "refused"), true, service.Unknown, leastDelay, "refused; no process"},
		"gives itself up":            {plain(), nil, "", said(givesUp, "trigger"), false, service.Gone, 0, "trigger; pid 7 runs"},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJudge(Target{Service: service.Service{Alive: tc.probe}, Before: service.Report{Server: tc.server, Instances: tc.known}})
			o := j.alive(0, tc.answer, func() Sight {
				if tc.ended {
					return Sight{Ended: true, Text: "no process"}
				}
				return runs()
			})
			if o.verdict != tc.verdict || o.why != tc.why || o.verdict != service.Gone && o.next != tc.next {
				t.Errorf("got %+v", o)
			}
		})
	}
}

// TestStarts: without a readiness probe failures count from the first good
// answer on, for whoever looks, and until then there is a deadline.
func TestStarts(t *testing.T) {
	no, yes, early := answer{kind: sick, text: "503"}, answer{kind: well}, answer{kind: well, early: true}
	ready := &service.Probe{Notify: true}
	for name, tc := range map[string]struct {
		ready  *service.Probe
		before service.Report
		first  answer
		why    string
		looks  int
	}{
		"never well":         {nil, service.Report{}, no, "not well within 1m0s of its start, the last: 503; pid 7 runs", 61},
		"had nothing to say": {nil, service.Report{}, early, "not well within 1m0s of its start, the last: 503; pid 7 runs", 62},
		"well once":          {nil, service.Report{}, yes, "3 looks in a row failed, the last: 503; pid 7 runs", 4},
		"well, to another":   {nil, service.Report{Verdict: service.Unknown, Answered: true}, no, "3 looks in a row failed, the last: 503; pid 7 runs", 2},
		"was ready":          {ready, service.Report{}, no, "3 looks in a row failed, the last: 503; pid 7 runs", 3},
	} {
		t.Run(name, func(t *testing.T) {
			j := newJudge(Target{Service: service.Service{Alive: plain(), Ready: tc.ready}, Before: tc.before})
			o, at, looks := j.alive(0, tc.first, runs), time.Duration(0), 1
			for ; o.verdict != service.Gone; looks++ {
				at += o.next
				o = j.alive(at, no, runs)
			}
			if o.why != tc.why || looks != tc.looks {
				t.Errorf("look %d: %s", looks, o.why)
			}
		})
	}
}

// Unknown is asked less and less often, up to the interval, and its deadline
// comes on time.
func TestDoubtBacksOffAndEnds(t *testing.T) {
	p := identity()
	p.Deadline = 5 * time.Second
	j := newJudge(Target{Service: service.Service{Alive: p}, Before: service.Report{Answered: true}})
	var at time.Duration
	var delays []time.Duration
	for {
		o := j.alive(at, answer{kind: unclear, text: "500"}, runs)
		if o.verdict == service.Gone {
			if o.why != "no clear answer for 5s, the last: 500; pid 7 runs" || at != p.Deadline {
				t.Errorf("after %s: %s", at, o.why)
			}
			break
		}
		delays = append(delays, o.next)
		at += o.next
	}
	if len(delays) < 5 || delays[0] != leastDelay || delays[1] != 2*leastDelay || delays[3] != interval {
		t.Errorf("waited %v", delays)
	}
}

// That no process is left is evidence, once init has had the time to say how it
// ended.
func TestEndThatNobodyTells(t *testing.T) {
	j := newJudge(Target{Service: service.Service{Alive: identity()}})
	var at time.Duration
	for {
		o := j.alive(at, answer{kind: unclear, text: "refused"}, func() Sight { return Sight{Ended: true, Text: "no process"} })
		if o.verdict == service.Gone {
			if at < 500*time.Millisecond || at > time.Second || o.why != "no process; refused" {
				t.Errorf("after %s: %s", at, o.why)
			}
			return
		}
		at += o.next
	}
}

func TestFailuresInARow(t *testing.T) {
	j := newJudge(Target{Service: service.Service{Alive: plain()}})
	no, yes := answer{kind: sick, text: "503"}, answer{kind: well}
	for n, step := range []struct {
		a    answer
		want service.Verdict
	}{{yes, service.Alive}, {no, service.Unknown}, {no, service.Unknown}, {yes, service.Alive}, {no, service.Unknown}, {no, service.Unknown}, {no, service.Gone}} {
		if o := j.alive(time.Duration(n)*interval, step.a, runs); o.verdict != step.want {
			t.Fatalf("look %d: %+v", n, o)
		} else if o.verdict == service.Gone && o.why != "3 looks in a row failed, the last: 503; pid 7 runs" {
			t.Error(o.why)
		}
	}
}

func TestReadiness(t *testing.T) {
	p := plain()
	p.Deadline = 10 * time.Second
	j := newJudge(Target{Service: service.Service{Ready: p}})
	no := answer{kind: unclear, text: "refused"}
	if o := j.ready(0, no, runs); o.ready || o.verdict != service.Alive || o.next != leastDelay || o.why != "not ready: refused" {
		t.Errorf("at once: %+v", o)
	}
	if o := j.ready(9900*time.Millisecond, no, runs); o.next != 100*time.Millisecond {
		t.Errorf("before the deadline: %+v", o)
	}
	if o := j.ready(10*time.Second, no, runs); o.verdict != service.Gone || o.why != "not ready within 10s: refused; pid 7 runs" {
		t.Errorf("at the deadline: %+v", o)
	}
	if o := j.ready(time.Hour, answer{kind: well}, runs); !o.ready || o.verdict != service.Alive {
		t.Errorf("ready late, but it is: %+v", o)
	}
}

// Whatever a service answers, and in whatever order: it is not asked in a hot
// loop, doubt ends by its deadline, and gone is said with a reason.
func TestAnyAnswers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom([]*service.Probe{identity(), plain()}).Draw(t, "probe")
		j := newJudge(Target{Service: service.Service{Alive: p}})
		var at, doubtful time.Duration
		for range rapid.IntRange(1, 300).Draw(t, "looks") {
			a := anyAnswer(t, p)
			had := len(living(j.known))
			o := j.alive(at, a, runs)
			switch o.verdict {
			case service.Gone:
				if o.why == "" {
					t.Fatal("gone without a reason")
				}
				if a.kind == noneHere && had == 0 {
					t.Fatalf("gone for want of what it never had: %s", o.why)
				}
				return
			case service.Unknown:
				if doubtful += o.next; doubtful > p.Deadline {
					t.Fatalf("in doubt for %s", doubtful)
				}
			case service.Alive:
				doubtful = 0
			}
			if o.next <= 0 || o.next < leastDelay && doubtful < p.Deadline {
				t.Fatalf("next look in %s", o.next)
			}
			at += o.next
		}
	})
}

func anyAnswer(t *rapid.T, p *service.Probe) answer {
	k := rapid.SampledFrom([]kind{well, noneHere, notFound, sick, unclear}).Draw(t, "kind")
	if p.Identity == nil && (k == noneHere || k == notFound) {
		k = sick
	}
	a := answer{kind: k, text: "x"}
	if k == well && p.Identity != nil {
		l := list{Server: "s"}
		for _, id := range []string{"a", "b"} {
			if rapid.Bool().Draw(t, id) {
				l.Instances = append(l.Instances, one(id, rapid.SampledFrom([]string{"running", "destroyed"}).Draw(t, "state"), 1))
			}
		}
		a.list = &l
	}
	return a
}

func TestNames(t *testing.T) {
	var many []service.Instance
	for _, id := range strings.Split("abcde", "") {
		many = append(many, one(id, "", 0))
	}
	if got := names(many); got != "5 instances: a, b, c, ..." {
		t.Error(got)
	}
}
