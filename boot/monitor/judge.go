package monitor

import (
	"fmt"
	"strings"
	"time"

	"reveille/boot/service"
)

// leastDelay is between two looks whatever happens. A quarter of a second tells
// a blip from a fault, and four questions a second hurt no service.
const leastDelay = 250 * time.Millisecond

// What a probe without these has; boot/service sets them from its own defaults.
const (
	defaultInterval = 10 * time.Second
	defaultDeadline = 60 * time.Second
)

// kind is what sort of answer came.
type kind int

const (
	well     kind = iota // a clear yes; of an Identity probe, with a list
	noneHere             // "I have no instance", in a word made for it: 424, 410, a code
	notFound             // 404: the same, from a service that had some; else a wrong URL
	sick                 // a clear no: a status
	givesUp              // a clear no of the service about itself
	unclear              // no answer, or none that means anything
	unasked              // nobody could ask
)

// answer is what came of one look.
type answer struct {
	kind kind
	text string // what was asked and what came, for people
	list *list  // with well, of an Identity probe
	// with well: it has not said so, and need not have yet
	early bool
}

// opinion is what the judge makes of an answer.
type opinion struct {
	verdict service.Verdict
	ready   bool // by a readiness probe
	why     string
	next    time.Duration // until the next look
}

// judge decides. It knows no clock, no socket and no process.
type judge struct {
	service  service.Service
	server   string             // empty until it is known
	known    []service.Instance // by ID
	answered bool               // alive was well once
	doubts   int                // in a row
	failures int                // of these, those where the service was asked
	since    time.Duration      // of the first of them
	ended    int                // of these, those at which the witness saw no process
}

func newJudge(t Target) *judge {
	j := &judge{service: t.Service, server: t.Before.Server, known: t.Before.Instances, answered: t.Before.Answered}
	if t.Before.Verdict == service.Unknown {
		j.doubts, j.failures, j.since = 1, 1, -t.Doubt
	}
	return j
}

// ready judges an answer of the readiness probe, age after the start.
func (j *judge) ready(age time.Duration, a answer, see func() Sight) opinion {
	p := j.service.Ready
	if a.kind == well {
		j.doubts = 0
		return opinion{verdict: service.Alive, ready: true, next: leastDelay}
	}
	s := see()
	deadline := orElse(p.Deadline, defaultDeadline)
	switch {
	case j.hasEnded(s):
		return gone("%s before it was ready; %s", s.Text, a.text)
	case a.kind == givesUp:
		return gone("%s before it was ready; %s", a.text, s.Text)
	case age >= deadline:
		return gone("not ready within %s: %s; %s", deadline, a.text, s.Text)
	}
	j.doubts++
	return opinion{verdict: service.Alive, why: "not ready: " + a.text, next: min(backoff(j.doubts, p.Interval), deadline-age)}
}

// alive judges an answer of the liveness probe, at a time that only grows.
func (j *judge) alive(at time.Duration, a answer, see func() Sight) opinion {
	p := j.service.Alive
	switch {
	case a.kind == well && a.list != nil:
		if why := j.lost(*a.list); why != "" {
			return gone("%s: %s", a.text, why)
		}
		j.server, j.known, j.answered = a.list.Server, a.list.Instances, true
		return j.well(p)
	case a.kind == well:
		j.answered = j.answered || !a.early
		return j.well(p)
	case a.kind == givesUp:
		return gone("%s; %s%s", a.text, see().Text, j.had())
	case a.kind == noneHere || a.kind == notFound:
		if had := living(j.known); len(had) > 0 {
			return gone("%s, and it had %s", a.text, names(had))
		}
		if a.kind == noneHere {
			j.known = nil
			return j.well(p)
		}
	}
	return j.doubt(p, at, a, see())
}

// endings is how often in a row the witness must see no process: for a second,
// that is. How it ended is for init to tell, at once and in full, and whoever
// hears it ends the monitor; this is for an end that init does not see.
const endings = 4

func (j *judge) hasEnded(s Sight) bool {
	if !s.Ended {
		j.ended = 0
		return false
	}
	j.ended++
	return j.ended >= endings
}

func (j *judge) well(p *service.Probe) opinion {
	j.doubts, j.failures, j.ended = 0, 0, 0
	return opinion{verdict: service.Alive, next: orElse(p.Interval, defaultInterval)}
}

// doubt bears an answer that is no evidence, until the deadline; that of a
// probe which asks for no instances also until it failed so often. While a
// service starts, there is the deadline only: see starting.
func (j *judge) doubt(p *service.Probe, at time.Duration, a answer, s Sight) opinion {
	if j.doubts == 0 {
		j.since = at
	}
	j.doubts++
	if a.kind != unasked {
		j.failures++
	}
	deadline, past := orElse(p.Deadline, defaultDeadline), at-j.since
	switch {
	case j.hasEnded(s):
		return gone("%s; %s%s", s.Text, a.text, j.had())
	case s.Ended:
		return opinion{verdict: service.Unknown, why: a.text + "; " + s.Text, next: leastDelay}
	case p.Identity == nil && !j.starting() && j.failures >= max(p.Failures, 1):
		return gone("%s in a row failed, the last: %s; %s", looks(j.failures), a.text, s.Text)
	case past >= deadline && j.starting():
		return gone("not well within %s of its start, the last: %s; %s", deadline, a.text, s.Text)
	case past >= deadline:
		return gone("no clear answer for %s, the last: %s; %s%s", deadline, a.text, s.Text, j.had())
	}
	next := orElse(p.Interval, defaultInterval) // failures are counted, so they have their distance
	if p.Identity != nil {
		next = backoff(j.doubts, p.Interval)
	}
	return opinion{verdict: service.Unknown, why: a.text + "; " + s.Text, next: min(next, deadline-past)}
}

// starting: without a readiness probe, nobody but its first good answer says
// that a service has started, and none can have failed before.
func (j *judge) starting() bool { return j.service.Ready == nil && !j.answered }

// had is what ends with the service, for a reason that does not name it.
func (j *judge) had() string {
	if all := living(j.known); len(all) > 0 {
		return "; it had " + names(all)
	}
	return ""
}

// lost compares a list with what the service had: how it shows that the state
// which it was trusted with is not there any more; empty when it is.
func (j *judge) lost(l list) string {
	if j.server != "" && l.Server != j.server {
		return fmt.Sprintf("it is %s now and was %s: it was started anew and has lost %s", l.Server, j.server, names(living(j.known)))
	}
	var missing []service.Instance
	for _, was := range j.known {
		is, found := l.find(was.ID)
		switch {
		case found && is.Generation < was.Generation:
			return fmt.Sprintf("instance %s went back from generation %d to %d%s", was.ID, was.Generation, is.Generation, j.had())
		case !found && !was.Ended():
			missing = append(missing, was)
		}
	}
	switch len(missing) {
	case 0:
		return ""
	case len(living(j.known)):
		return "it does not know " + names(missing) + " any more"
	}
	return "it does not know " + names(missing) + " any more" + j.had()
}

func living(all []service.Instance) (live []service.Instance) {
	for _, i := range all {
		if !i.Ended() {
			live = append(live, i)
		}
	}
	return live
}

// names is a few of them: "3 instances: a, b, c".
func names(all []service.Instance) string {
	const show = 3
	switch len(all) {
	case 0:
		return "no instance"
	case 1:
		return "instance " + all[0].ID
	}
	var ids []string
	for _, i := range all[:min(len(all), show)] {
		ids = append(ids, i.ID)
	}
	text := fmt.Sprintf("%d instances: %s", len(all), strings.Join(ids, ", "))
	if len(all) > show {
		text += ", ..."
	}
	return text
}

func looks(n int) string {
	if n == 1 {
		return "1 look"
	}
	return fmt.Sprintf("%d looks", n)
}

func gone(format string, args ...any) opinion {
	return opinion{verdict: service.Gone, why: fmt.Sprintf(format, args...)}
}

// backoff doubles from the least delay up to the interval.
func backoff(doubts int, interval time.Duration) time.Duration {
	d := leastDelay
	for range doubts - 1 {
		if d *= 2; d >= interval {
			break
		}
	}
	return max(min(d, orElse(interval, defaultInterval)), leastDelay)
}

func orElse(d, otherwise time.Duration) time.Duration {
	if d > 0 {
		return d
	}
	return otherwise
}
