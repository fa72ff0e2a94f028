//go:build e2e && soak

package e2e

import (
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"reveille/boot/cluster/operator"
)

// TestVMServerFaults: whatever the monitor's question meets, the verdict is the
// right one. What passes was a doubt, and only the server's own word, or the
// deadline, ends a service.
func TestVMServerFaults(t *testing.T) {
	doubtful := map[string]string{
		"garbage": "not the JSON that an identity probe wants", "500": "500 Internal Server Error", "delay": "no answer within 1s",
		"hang": "no answer within 1s", "close": "the connection was closed before the answer",
	}
	atOnce := map[string]string{"424": "424 Failed Dependency, no instance", "410": "410 Gone, no instance"}
	var servers []vmServer
	for kind := range doubtful {
		servers = append(servers, vmServer{name: "vm-" + kind, port: 8100 + len(servers)})
	}
	doubted := len(servers)
	for kind := range atOnce {
		servers = append(servers, vmServer{name: "vm-" + kind, port: 8100 + len(servers)})
	}
	vms := bootVMs(t, `  checked: {command: [/init, payload, live], restart: never, ready: {exec: [/init, payload, exit, "0"], timeout: 10s}, alive: {exec: [/init, payload, exit, "3"], interval: 1s, timeout: 10s, failures: 2}}
  notifies: {command: [/bin/vmserver, --listen, "127.0.0.1:8099"], restart: never, ready: {notify: true}, alive: {notify: true, interval: 5s}}
`, servers...)
	kindOf := func(v vmServer) string { return strings.TrimPrefix(v.name, "vm-") }
	asked := func(v vmServer) string {
		return fmt.Sprintf("GET http://127.0.0.1:%d/instances: ", v.port)
	}

	for _, v := range servers[doubted:] {
		began := time.Now()
		vms.put(v, "/fault?kind="+kindOf(v))
		vms.isGone(v, began, detection, regexp.QuoteMeta(asked(v)+atOnce[kindOf(v)]+", and it had 3 instances: a, b, c"), "fault "+kindOf(v))
	}
	for _, v := range servers[:doubted] {
		vms.put(v, "/fault?kind="+kindOf(v)+"&for=30")
	}
	for _, v := range servers[:doubted] {
		s := vms.await(v.name, "in doubt", func(s operator.Service) bool { return s.Verdict == "unknown" })
		if s.State != "running" || s.Healthy || !strings.HasPrefix(s.Reason, asked(v)+doubtful[kindOf(v)]+"; pid ") {
			t.Errorf("%s in doubt: %+v", v.name, s)
		}
	}
	for _, v := range servers[:doubted] {
		s := vms.await(v.name, "alive again", func(s operator.Service) bool { return s.Verdict == "alive" && s.Reason == "" })
		if s.State != "running" || s.Incarnation != 1 || len(s.Instances) != 3 {
			t.Errorf("%s after the fault: %+v", v.name, s)
		}
	}
	began := time.Now()
	for _, v := range servers[:doubted] {
		vms.put(v, "/fault?kind="+kindOf(v))
	}
	for _, v := range servers[:doubted] {
		vms.isGone(v, began, 0, `^no clear answer for 45s, the last: `+regexp.QuoteMeta(asked(v)+doubtful[kindOf(v)])+`; pid \d+ runs`, "fault "+kindOf(v))
	}

	s := vms.await("checked", "failed", func(s operator.Service) bool { return s.State == "failed" })
	if !strings.HasPrefix(s.Reason, "2 looks in a row failed, the last: exec /init: exit status 3; pid ") {
		t.Errorf("checked: %q", s.Reason)
	}
	vms.await("notifies", "ready", func(s operator.Service) bool { return s.Ready && s.Verdict == "alive" })
}
