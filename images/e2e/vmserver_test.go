//go:build e2e

package e2e

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"reveille/boot/cluster/operator"
	"reveille/images/rack"
)

// vmServer is a service that keeps instances in its memory (images/vmserver).
type vmServer struct {
	name string
	port int
	more string // of its definition
	args string // of its command
}

// definition is its line in node.yaml. Its probe looks every second; the long
// poll has it look at once when something happens.
func (v vmServer) definition() string {
	return fmt.Sprintf(`  %s: {command: [/bin/vmserver, --listen, "0.0.0.0:%d"%s], restart: never%s,
    alive: {identity: {list: "http://127.0.0.1:%d/instances", watch: "http://127.0.0.1:%d/instances/watch"}, interval: 1s, timeout: 1s, deadline: 45s}}
`, v.name, v.port, v.args, v.more, v.port, v.port)
}

// vmRack is a node with VM servers, each with three instances.
type vmRack struct {
	*testing.T
	ctx     context.Context
	rack    *rack.Rack
	node    *rack.Node
	servers []vmServer
}

func bootVMs(t *testing.T, more string, servers ...vmServer) *vmRack {
	r, ctx := newRack(t)
	start(t, ctx, r)
	yaml, ports := "services:\n", []int{}
	for _, v := range servers {
		yaml += v.definition()
		ports = append(ports, v.port)
	}
	n := add(t, ctx, r, rack.Machine{Name: "n1", TPM: true, Extra: yaml + more, Ports: ports})
	boot(t, ctx, n, "")
	vms := &vmRack{T: t, ctx: ctx, rack: r, node: n, servers: servers}
	for _, v := range servers {
		vms.await(v.name, "running", func(s operator.Service) bool { return s.State == "running" && s.Verdict == "alive" })
		for _, id := range []string{"a", "b", "c"} {
			vms.put(v, "/instance/"+id)
		}
	}
	for _, v := range servers {
		vms.await(v.name, "three instances", func(s operator.Service) bool { return len(s.Instances) == 3 })
	}
	return vms
}

// try asks a server for something; a server that dies of it does not answer.
func (t *vmRack) try(v vmServer, method, path string) error {
	ctx, cancel := context.WithTimeout(t.ctx, 10*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+t.node.Forwarded(v.port)+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultTransport.RoundTrip(req)
	if err != nil {
		return err
	}
	resp.Body.Close()
	if resp.StatusCode > 299 {
		return errors.New(resp.Status)
	}
	return nil
}

func (t *vmRack) put(v vmServer, path string) {
	t.Helper()
	if err := t.try(v, http.MethodPut, path); err != nil {
		t.Fatalf("%s: PUT %s: %v", v.name, path, err)
	}
}

// await waits until the controller sees a service as it should be.
func (t *vmRack) await(name, what string, ok func(operator.Service) bool) operator.Service {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, 2*time.Minute)
	defer cancel()
	var seen operator.Service
	_, err := t.rack.WaitFor(ctx, t.node.Name, func(v rack.View) bool {
		i := slices.IndexFunc(v.Services, func(s operator.Service) bool { return s.Name == name })
		if i < 0 {
			return false
		}
		seen = v.Services[i]
		return ok(seen)
	})
	if err != nil {
		log, _ := t.node.Logs(t.ctx) // if there is none, the console is shown
		t.Fatalf("%s: %s: %v; last %+v; log:\n%s", name, what, ctx.Err(), seen, log)
	}
	return seen
}

// detection is the most that may pass from a death to the controller's knowing
// of it.
const detection = 5 * time.Second

// isGone wants a service failed for good, all of it: at the controller with its
// reason, its instances gone, its processes too, and no other in their place.
func (t *vmRack) isGone(v vmServer, since time.Time, within time.Duration, reason, log string) operator.CrashRecord {
	t.Helper()
	s := t.await(v.name, "failed", func(s operator.Service) bool { return s.State == "failed" })
	took := time.Since(since)
	t.Logf("%s: failed after %s: %s", v.name, took.Round(10*time.Millisecond), s.Reason)
	if within > 0 && took > within {
		t.Errorf("%s: the controller knew after %s", v.name, took)
	}
	if !regexp.MustCompile(reason).MatchString(s.Reason) {
		t.Errorf("%s: reason %q, want %s", v.name, s.Reason, reason)
	}
	if len(s.Instances) != 3 || slices.ContainsFunc(s.Instances, func(i operator.Instance) bool { return i.State != "gone" }) {
		t.Errorf("%s: instances %+v", v.name, s.Instances)
	}
	record, found := serviceBundle(t.T, t.ctx, t.rack, v.name, true)
	if !found || !strings.Contains(record.Log, "instance a runs") || strings.Count(record.Trace, "gone with it") != 3 || !strings.Contains(record.Log, log) {
		t.Errorf("%s: bundle:\n%s\n%s", v.name, record.Trace, record.Log)
	}
	if err := t.try(v, http.MethodGet, "/instances"); err == nil {
		t.Errorf("%s: something serves its port", v.name)
	}
	if now := t.await(v.name, "still failed", func(s operator.Service) bool { return s.State == "failed" }); now.Incarnation != 1 {
		t.Errorf("%s: incarnation %d", v.name, now.Incarnation)
	}
	return record
}

// attachment is an operator's `node attach` under way.
type attachment struct {
	*exec.Cmd
	out, said bytes.Buffer // stdout; stderr behind the first line
	rest      chan error
}

// attach follows a service as an operator does. It returns once attached, or
// refused.
func (t *vmRack) attach(stdin string, args ...string) *attachment {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.ctx, bootTime)
	t.Cleanup(cancel)
	a := &attachment{Cmd: exec.CommandContext(ctx, t.rack.Program(), t.rack.OperatorArgs(append([]string{"node", "attach"}, args...)...)...), rest: make(chan error, 1)}
	a.Stdin, a.Stdout = strings.NewReader(stdin), &a.out
	stderr, err := a.StderrPipe()
	if err == nil {
		err = a.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	first, begun := bufio.NewReader(stderr), make(chan struct{})
	go func() {
		line, _ := first.ReadString('\n') // its end is its end
		if !strings.HasPrefix(line, "attached to ") {
			a.said.WriteString(line)
		}
		close(begun)
		_, err := first.WriteTo(&a.said)
		a.rest <- err
	}()
	<-begun
	return a
}

// ends wants the attachment to have ended, with a status of 1 and these words.
func (a *attachment) ends(t *testing.T, said string) {
	t.Helper()
	err := errors.Join(<-a.rest, a.Wait())
	if a.ProcessState.ExitCode() != 1 || !strings.Contains(a.said.String(), said) {
		t.Errorf("%v: %v: %q, want %q; showed %q", a.Args[3:], err, a.said.String(), said, a.out.String())
	}
}

// TestVMServerDies: a server of virtual machines is killed, so is one that
// somebody brings back at once, and one crashes and leaves a core. All are failed
// within seconds, for good.
func TestVMServerDies(t *testing.T) {
	killed := vmServer{name: "killed", port: 8081}
	again := vmServer{name: "again", port: 8082, args: ", --restarter"}
	tty := vmServer{name: "tty", port: 8083, more: ", terminal: true"}
	dumped := vmServer{name: "dumped", port: 8084, more: fmt.Sprintf(", core: {limit: %d}, environment: {GOTRACEBACK: crash}", coreLimit)}
	vms := bootVMs(t, "", killed, again, tty, dumped)

	byService, byInstance := vms.attach("", "n1", "killed", "--tail", "0"), vms.attach("", "n1", "again", "--instance", "b")
	typed := vms.attach("hello\n", "n1", "tty")

	died := time.Now()
	_ = vms.try(killed, http.MethodPut, "/die?signal=9") // it does not answer any more
	vms.isGone(killed, died, detection, `^signal 9 \(killed\)`, "")
	died = time.Now()
	_ = vms.try(again, http.MethodPut, "/die?signal=9")
	vms.isGone(again, died, detection, `GET http://127\.0\.0\.1:8082/instances: 424 Failed Dependency, no instance, and it had 3 instances: a, b, c`, "starting it again")

	died = time.Now()
	_ = vms.try(dumped, http.MethodPut, "/die?signal=6")
	vms.hasCore(vms.isGone(dumped, died, detection, `^signal 6 \(aborted\), core dumped, and with it 3 instances$`, "SIGABRT: abort"))

	byService.ends(t, "incarnation 1 of killed is gone: killed is ")
	if !strings.Contains(byService.out.String(), "instance c runs\n") {
		t.Errorf("its output: %q", byService.out.String())
	}
	byInstance.ends(t, "incarnation 1 of again is gone: again is ")
	vms.attach("", "n1", "killed").ends(t, "killed is failed: signal 9 (killed)")

	if log, err := vms.node.Logs(vms.ctx); err != nil || !regexp.MustCompile(`vm-\w+ heard "hello"`).MatchString(log) {
		t.Errorf("nobody heard at the terminal: %v", err)
	}
	_ = vms.try(tty, http.MethodPut, "/die?signal=15")
	typed.ends(t, "incarnation 1 of tty is gone: tty is ")
	if !regexp.MustCompile(`vm-\w+ heard "hello"`).Match(typed.out.Bytes()) {
		t.Errorf("its terminal: %q", typed.out.String())
	}
}
