//go:build e2e && soak

package e2e

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"reveille/boot/cluster/operator"
	"reveille/images/bench"
	"reveille/images/rack"
)

const (
	// A storm is so many kills in one boot (boot/storm.go).
	stormKills = 50
	// tolerant has init start its agent again at once and for ever: with the
	// pauses and the reboots that a loop of crashes ends in, 200 kills take hours.
	tolerant = "REVEILLE_FAULT=tolerant reveille.fault=storm@mounts"
)

// TestKills kills the agent 200 times at random moments of its life, from
// inside, over four boots: the first enrols. Each time the node ends up as a
// member; what init runs besides has noticed nothing; no zombie stays; and the
// log has every record that an agent had logged before it was killed.
func TestKills(t *testing.T) {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{Name: "n1", TPM: true, Append: tolerant, Extra: definitions(underFire), Serial: []bench.Pace{bench.Unlimited()}})
	id, last := "", ""
	for i := range 4 {
		v, log := storm(t, ctx, r, n, last, underFire[:len(underFire)-1])
		last = v.BootID
		if id == "" {
			id = v.ID
		}
		if v.ID != id || int(v.AgentCrashes) != stormKills {
			t.Errorf("boot %d: node %s with %d crashes, want %s with %d", i+1, v.ID, v.AgentCrashes, id, stormKills)
		}
		nothingIsLost(t, log)
		bystanderLives(t, log)
		servicesHold(t, v, log)
		if t.Failed() {
			t.Fatalf("boot %d:\n%s", i+1, log)
		}
		if n.Reboots() != 0 {
			t.Fatal("the machine was reset")
		}
		if err := n.PowerCut(); err != nil {
			t.Fatal(err)
		}
	}
}

// underFire are services of the node whose agent is killed: those that live,
// those that die, each in its way, and must stay dead, and one that is started
// again and again.
var underFire = []misdeed{
	{name: "lives", yaml: does("live", ""), state: "running"},
	{name: "deaf", yaml: does("deaf", ""), state: "running"},
	{name: "vm", yaml: `command: [/bin/vmserver, --listen, "127.0.0.1:8000"], restart: never,
    alive: {identity: {list: "http://127.0.0.1:8000/instances", watch: "http://127.0.0.1:8000/instances/watch"}, interval: 1s, timeout: 1s, deadline: 45s}`, state: "running"},
	{name: "well", yaml: strings.Replace(does("exit 0", ""), "never", "on-failure", 1), state: "done"},
	{name: "once", yaml: does("exit 1", ""), state: "failed"},
	{name: "killed", yaml: does("signal 9", ""), state: "failed"},
	{name: "hang", yaml: does("hang 127.0.0.1:9001", `, ready: {tcp: "127.0.0.1:9001", interval: 500ms}, alive: {http: "http://127.0.0.1:9001/", interval: 1s, timeout: 1s, failures: 3, deadline: 4s}`), state: "failed"},
	{name: "hungry", yaml: does("hungry", ", limits: {memory: 64Mi}"), state: "failed"},
	loop,
}

var loop = misdeed{name: "loop", yaml: strings.Replace(does("exit 1", ""), "never", "on-failure", 1)}

// servicesHold wants each service to have been treated as if no agent had died:
// what lives is the one process, what is never started again was started once,
// and no incarnation had two processes.
func servicesHold(t *testing.T, v rack.View, log string) {
	t.Helper()
	for _, m := range underFire {
		i := slices.IndexFunc(v.Services, func(s operator.Service) bool { return s.Name == m.name })
		if i < 0 {
			t.Errorf("nobody tells of %s", m.name)
			continue
		}
		s, starts := v.Services[i], len(regexp.MustCompile("svc/"+m.name+` +\S (payload|vmserver \S+ serves) `).FindAllString(log, -1))
		if m.state != "" && (s.State != m.state || starts != 1) {
			t.Errorf("%s is %s: %q, and was started %d times, want %s and once", m.name, s.State, s.Reason, starts, m.state)
		}
		if starts < 1 || starts > int(s.Incarnation) {
			t.Errorf("%s has had %d processes in %d incarnations", m.name, starts, s.Incarnation)
		}
	}
}

// TestKillsAmongFaults has each way for a service to fail that ends in one state
// under an agent that is killed 50 times: in the end all are as if it had lived.
func TestKillsAmongFaults(t *testing.T) {
	var all []misdeed
	for _, m := range slices.Concat(commonMisdeeds, otherMisdeeds) {
		if m.state != "backoff" { // it comes and goes
			m.reason = "" // an agent that comes later may know less
			all = append(all, m)
		}
	}
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{Name: "n1", TPM: true, Append: tolerant, Extra: definitions(all), Serial: []bench.Pace{bench.Unlimited()}})
	_, log := storm(t, ctx, r, n, "", all)
	nothingIsLost(t, log)
}

// storm boots the node and returns what became of it, and its log, when the
// storm is over, it is a member, and its services are as they should be.
func storm(t *testing.T, ctx context.Context, r *rack.Rack, n *rack.Node, lastBoot string, settled []misdeed) (rack.View, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 2*bootTime)
	defer cancel()
	if err := n.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	joined := rack.Joined(lastBoot)
	over := func(v rack.View) bool {
		return joined(v) && v.AgentCrashes >= stormKills && len(unlike(v, settled)) == 0
	}
	if _, err := r.WaitFor(ctx, n.Name, over); err != nil {
		seen, _ := r.WaitFor(t.Context(), n.Name, func(rack.View) bool { return true }) // as it is
		t.Fatal(err, unlike(seen, settled))
	}
	for {
		log, err := n.Logs(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(log, ended) { // it looks for zombies for seconds
			time.Sleep(time.Second)
			continue
		}
		v, err := r.WaitFor(ctx, n.Name, over) // after the log: no service has fewer incarnations
		if err != nil {
			t.Fatal(err)
		}
		return v, log
	}
}

var (
	kill    = regexp.MustCompile(`svc/killer.*kill \d+: pid \d+ after (\S+), said (\d+) (\d+)`)
	counted = regexp.MustCompile(`incarnation (\d+) record (\d+)`)
	beat    = regexp.MustCompile(`beat (\d+) of pid (\d+)`)
	ended   = fmt.Sprintf("over: %d kills, ", stormKills)
	over    = ended + "0 zombies"
)

// nothingIsLost wants, for each kill, all records up to the last that the
// victim knew to be logged.
func nothingIsLost(t *testing.T, log string) {
	t.Helper()
	if !strings.Contains(log, over) {
		t.Errorf("no %q", over)
	}
	has := map[string]bool{}
	for _, m := range counted.FindAllStringSubmatch(log, -1) {
		has[m[1]+" "+m[2]] = true
	}
	kills := kill.FindAllStringSubmatch(log, -1)
	if len(kills) < stormKills-5 { // those before the first record have nothing to say
		t.Errorf("only %d kills are on record", len(kills))
	}
	records := 0
	for _, k := range kills {
		var incarnation, said int
		if _, err := fmt.Sscan(k[2]+" "+k[3], &incarnation, &said); err != nil {
			t.Fatal(err)
		}
		for i := range said {
			records++
			if want := fmt.Sprint(incarnation, i+1); !has[want] {
				t.Errorf("incarnation and record %s is not in the log, %s were logged", want, k[3])
			}
		}
	}
	t.Logf("%d kills, %d records logged before them", len(kills), records)
}

// bystanderLives wants one process with every beat of its life.
func bystanderLives(t *testing.T, log string) {
	t.Helper()
	var pids []string
	for i, m := range beat.FindAllStringSubmatch(log, -1) {
		pids = append(pids, m[2])
		if m[1] != fmt.Sprint(i+1) {
			t.Errorf("beat %s where %d should be", m[1], i+1)
			return
		}
	}
	beats := len(pids)
	if pids = slices.Compact(pids); len(pids) != 1 {
		t.Errorf("the bystander was started %d times", len(pids))
	}
	t.Logf("%d beats of the bystander", beats)
}
