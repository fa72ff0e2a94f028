//go:build e2e && soak

package e2e

import (
	"fmt"
	"strings"
	"syscall"
	"testing"

	"reveille/images/rack"
)

// otherMisdeeds are those that `make soak` adds.
var otherMisdeeds = []misdeed{
	{"exit-two", does("exit 2", ""), "failed", `^exit status 2$`, `payload exit`},
	{"deaf", does("deaf", ", stop: {timeout: 2s}"), "running", `^$`, ""},
	{"orphans", does("orphans", ""), "failed", `^exit status 1, and left 3 processes behind, which were killed$`, `processes left over: 3: `},
	{"mute", does("mute", ""), "running", `^$`, ""},
	{"flood", does("flood", ", logs: {rate: 64Ki}"), "running", `^$`, ""},
	{"fast", strings.Replace(does("exit 1", ""), "never", "on-failure", 1), "backoff", `^exit status 1$`, `payload exit`},
	{"no-program", `command: [/run/svc/none], restart: never, files: {/run/svc/none: {mode: "0755", content: "no program"}}`,
		"failed", `^start no-program: exec /run/svc/none: exec format error$`, `it never ran`},
	{"no-group", does("live", ", group: nosuch"), "failed", `^start no-group: set group nosuch: not found$`, `it never ran`},
	{"dump", does("dump 300", ", core: {limit: 4Mi}"), "failed", `^signal 6 \(aborted\), core dumped$`, `core: 4194304 bytes, cut there; the first \d+ of them`},
	{"fill", does("fill /run/reveille/state/filler", ""), "failed", `^exit status 7$`, `no space left on device`},
}

// TestAllServiceFaults runs the other misdeeds, and then those that a signal
// ends, each signal that a process dies of.
func TestAllServiceFaults(t *testing.T) {
	t.Run("misdeeds", func(t *testing.T) { deafIsKilled(t, misbehave(t, otherMisdeeds)) })
	deadly := []misdeed{}
	for sig := syscall.Signal(1); sig <= syscall.SIGSYS; sig++ {
		switch sig {
		case syscall.SIGCHLD, syscall.SIGCONT, syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGURG, syscall.SIGWINCH:
			continue // nobody dies of them
		}
		deadly = append(deadly, misdeed{fmt.Sprintf("signal-%d", sig), does(fmt.Sprintf("signal %d", sig), ""), "failed",
			fmt.Sprintf(`^signal %d \(.*\)`, sig), `payload signal`})
	}
	for len(deadly) > 0 { // the cluster keeps sixteen bundles of a node
		some := deadly[:min(12, len(deadly))]
		deadly = deadly[len(some):]
		t.Run("signals from "+some[0].name, func(t *testing.T) { misbehave(t, some) })
	}
}

// deafIsKilled wants the log to say that the service which ignores SIGTERM had
// its time, and was killed then.
func deafIsKilled(t *testing.T, n *rack.Node) {
	records, err := n.Records(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	at := func(text string) (at float64) {
		for _, r := range records {
			if r.Text == text {
				at = r.UptimeSeconds
			}
		}
		if at == 0 {
			t.Errorf("the log lacks %q", text)
		}
		return at
	}
	asked, killed := at("deaf#1: stopping: it was stopped by an operator"), at("deaf#1: did not end within 2s of SIGTERM; killed")
	if killed-asked < 1 { // of 2 s; a line is stamped when init has it, and one may be late
		t.Errorf("killed %.3f s after it was asked to end", killed-asked)
	}
}
