//go:build e2e

package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"reveille/boot/cluster/operator"
	"reveille/images/rack"
)

// misdeed is a service that does something wrong, and what is to come of it.
type misdeed struct {
	name   string
	yaml   string // the rest of its definition
	state  string // in the end
	reason string // a pattern: why
	bundle string // a pattern for what its bundle tells; empty: there is none
}

// does is a service that runs a payload of init's (init/payload.go) and is
// never started again.
func does(payload, more string) string {
	return fmt.Sprintf("command: [/init, payload, %s], restart: never%s", strings.ReplaceAll(payload, " ", ", "), more)
}

// commonMisdeeds are those that `make test` runs.
var commonMisdeeds = []misdeed{
	{"exit-zero", strings.Replace(does("exit 0", ""), "never", "on-failure", 1), "done", `^it ended by itself: exit status 0$`, ""},
	{"exit-one", does("exit 1", ""), "failed", `^exit status 1$`, `payload exit, pid `},
	{"killed", does("signal 9", ""), "failed", `^signal 9 \(killed\)$`, `payload signal, pid `},
	{"hang", does("hang 127.0.0.1:9001", `, ready: {tcp: "127.0.0.1:9001", interval: 500ms}, alive: {http: "http://127.0.0.1:9001/", interval: 1s, timeout: 1s, failures: 3, deadline: 4s}`),
		"failed", `127\.0\.0\.1:9001.*stopped`, `payload hang, pid `},
	{"bomb", does("bomb", ", limits: {pids: 30}"), "running", `^$`, ""},
	{"daemon", does("daemon", ""), "failed", `^exit status 0, and left 1 process behind, which were killed$`, `processes left over: 1: exe \(\d+\)`},
	{"missing", `command: [/no/such/file], restart: never`, "failed", `^start missing: exec /no/such/file: no such file or directory$`, `it never ran`},
	{"nobody", does("live", ", user: nosuch"), "failed", `^start nobody: set user nosuch: not found$`, `it never ran`},
	{"hungry", does("hungry", ", limits: {memory: 48Mi}"), "failed", `^signal 9 \(killed\): out of memory, its limit is 48 MiB$`, `memory\.events: oom_kill [1-9]`},
}

// TestServiceFaults runs services that misbehave, all in one boot.
func TestServiceFaults(t *testing.T) { misbehave(t, commonMisdeeds) }

// misbehave boots a node with these services and wants of each what is to come
// of it: at the controller, by its reason, with its bundle.
func misbehave(t *testing.T, all []misdeed) *rack.Node {
	r, ctx := newRack(t)
	start(t, ctx, r)
	n := add(t, ctx, r, rack.Machine{Name: "n1", TPM: true, Extra: definitions(all)})
	boot(t, ctx, n, "")
	settled, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	v, err := r.WaitFor(settled, n.Name, func(v rack.View) bool { return len(unlike(v, all)) == 0 })
	if err != nil {
		for _, problem := range unlike(v, all) {
			t.Error(problem)
		}
		log, _ := n.Logs(ctx) // if there is none, the console is shown
		t.Fatalf("it is not as it should be; log:\n%s", log)
	}
	for _, m := range all {
		m.isBundled(t, ctx, r)
	}
	stopAll(t, ctx, r, all)
	return n
}

// howStopped is what is said of those that an operator stops, where it is not
// that they ended by SIGTERM.
var howStopped = map[string]string{"deaf": `signal 9 \(killed\), as it did not end within 2s of SIGTERM`}

// stopAll has an operator stop what still runs: whatever a service does about
// it, it ends, and how is said.
func stopAll(t *testing.T, ctx context.Context, r *rack.Rack, all []misdeed) {
	t.Helper()
	var stopped []misdeed
	for _, m := range all {
		if m.state != "running" {
			continue
		}
		if _, err := r.Operator(ctx, "service", "stop", "n1", m.name); err != nil {
			t.Error(err)
		}
		m.state, m.reason = "stopped", `^it was stopped by an operator; `+cmp.Or(howStopped[m.name], `signal 15 \(terminated\)`)
		stopped = append(stopped, m)
	}
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if v, err := r.WaitFor(ctx, "n1", func(v rack.View) bool { return len(unlike(v, stopped)) == 0 }); err != nil {
		t.Error("to be stopped: ", unlike(v, stopped))
	}
}

func definitions(all []misdeed) string {
	var b strings.Builder
	b.WriteString("services:\n")
	for _, m := range all {
		fmt.Fprintf(&b, "  %s: {%s}\n", m.name, m.yaml)
	}
	return b.String()
}

// unlike says which services are not as they should be.
func unlike(v rack.View, all []misdeed) (problems []string) {
	for _, m := range all {
		i := slices.IndexFunc(v.Services, func(s operator.Service) bool { return s.Name == m.name })
		if i < 0 {
			problems = append(problems, m.name+" is not told of")
			continue
		}
		if s := v.Services[i]; s.State != m.state || !regexp.MustCompile(m.reason).MatchString(s.Reason) {
			problems = append(problems, fmt.Sprintf("%s is %s: %q, want %s: %s", m.name, s.State, s.Reason, m.state, m.reason))
		}
	}
	return problems
}

// isBundled wants the bundle of a death, or none.
func (m misdeed) isBundled(t *testing.T, ctx context.Context, r *rack.Rack) {
	t.Helper()
	record, found := serviceBundle(t, ctx, r, m.name, m.bundle != "")
	if m.bundle == "" {
		if found {
			t.Errorf("%s has a bundle: %s", m.name, record.Reason)
		}
		return
	}
	if !found {
		t.Errorf("%s has no bundle", m.name)
		return
	}
	text := strings.Join([]string{record.WaitStatus, record.Trace, record.Log}, "\n")
	if record.Kind != "service" || !regexp.MustCompile(m.bundle).MatchString(text) {
		t.Errorf("the bundle of %s lacks %s:\n%s", m.name, m.bundle, text)
	}
}

// serviceBundle returns the bundle of a service's first incarnation; with wait
// it waits for it.
func serviceBundle(t *testing.T, ctx context.Context, r *rack.Rack, name string, wait bool) (record operator.CrashRecord, found bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		for _, b := range bundles(t, ctx, r) {
			if !strings.HasPrefix(b.Reason, name+"#1: ") {
				continue
			}
			out, err := r.Operator(ctx, "node", "bundle", "n1", b.ID, "-o", "json")
			if err != nil {
				t.Fatal(err)
			}
			if err := json.Unmarshal(out, &record); err != nil {
				t.Fatal(err)
			}
			return record, true
		}
		if !wait {
			return record, false
		}
		select {
		case <-ctx.Done():
			return record, false
		case <-time.After(500 * time.Millisecond):
		}
	}
}
