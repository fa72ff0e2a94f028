//go:build faults

package boot

import (
	"fmt"
	"io"
	"os"
	"time"
)

// stormKind is the one fault that strikes every incarnation: what it starts in
// the first kills all that follow.
const stormKind = "storm"

// storm has init run two children, one that kills the agent again and again and
// one that just lives, and has each agent count its records.
func (n *Node) storm() {
	if n.incarnation == 1 {
		n.child("bystander")
		n.child("killer", "50") // last: from here on, anything may be cut off
	}
	go n.count()
}

// Said is where an agent notes the last record that it has logged; it outlives
// the agent.
const Said = "/run/storm.said"

// count logs records by number and notes each once it is logged: three at once,
// because a record that waits for init with another behind it is the one to lose.
func (n *Node) count() {
	log := n.logger("count")
	said, err := os.OpenFile(Said, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		log.Error(err.Error())
		return
	}
	for k := 1; ; k++ {
		log.Debug(fmt.Sprintf("incarnation %d record %d", n.incarnation, k))
		_, _ = fmt.Fprintf(io.NewOffsetWriter(said, 0), "%10d %10d\n", n.incarnation, k) // memory: there is no error
		if k%3 == 0 {
			time.Sleep(250 * time.Millisecond)
		}
	}
}
