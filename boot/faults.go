//go:build faults

package boot

import (
	"context"
	"os"
	"strings"
	"syscall"
	"time"

	"reveille/boot/proc"
)

// fault does what reveille.fault= names for this point of the boot:
// "kind@point", several with commas. A point is a stage's name, or
// "network-half": after the first operation of the network. Faults of the
// agent strike its first incarnation only, or the boot would never end.
func (n *Node) fault(point string) {
	for f := range strings.SplitSeq(n.settings.Fault, ",") {
		kind, at, _ := strings.Cut(f, "@")
		if at != point || n.incarnation != 1 {
			continue
		}
		n.logger("fault").Warn("injecting " + f)
		switch kind {
		case "agent-panic":
			panic("fault: agent-panic")
		case "agent-maprace":
			raceOnMap()
		case "agent-segv":
			syscall.Kill(os.Getpid(), syscall.SIGSEGV)
		case "agent-kill":
			syscall.Kill(os.Getpid(), syscall.SIGKILL)
		case "flood":
			n.flood()
		default:
			n.logger("fault").Error("no such fault: " + kind)
		}
	}
}

// raceOnMap writes one map from many goroutines until the runtime notices,
// which is a throw: no recover helps.
func raceOnMap() {
	m := map[int]int{}
	for range 8 {
		go func() {
			for i := 0; ; i++ {
				m[i%8] = i
			}
		}()
	}
	time.Sleep(time.Minute) // a throw ends this long before
}

// flood has init run a child that writes 200 KB while the node boots.
func (n *Node) flood() {
	_, err := n.init.Start(context.Background(), proc.Spec{
		Name: "flood", Incarnation: 1, Path: "/init", Argv: []string{"init", "flood", "200000"},
	})
	if err != nil {
		n.logger("fault").Error("start flood: " + err.Error())
	}
}
