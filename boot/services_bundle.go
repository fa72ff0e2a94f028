package boot

import (
	"context"
	"fmt"
	"strings"
	"time"

	"reveille/boot/crash"
	"reveille/boot/proc"
	"reveille/boot/supervise"
)

// logOfDeath bounds the records of a service's own log in its bundle; the
// record cuts them to 64 KiB.
const logOfDeath = 1000

// bundleService hands init a record of a death, and init keeps it, through
// crashes of the agent and of the machine, until the cluster has it.
func (n *Node) bundleService(ctx context.Context, d supervise.Death) error {
	core, about := coreOf(d.Ref)
	record := serviceRecord(d, about)
	record.Dmesg = core
	record.Node, record.Build, record.BootID = n.params.Name, n.build.ID, n.bootID
	record.Stage, _ = n.track.Now()
	record.Time = time.Now().UTC()
	log, err := n.lastLog(ctx, "svc/"+d.Service.Name)
	if err != nil {
		log = []byte("its log could not be read: " + err.Error() + "\n")
	}
	record.Log = log
	if err := n.init.AddRecord(ctx, record.Encode()); err != nil {
		return fmt.Errorf("have init keep it: %w", err)
	}
	n.haveRecords()
	return nil
}

// serviceRecord is what a death leaves, without its log and its core, of which
// something may be said.
func serviceRecord(d supervise.Death, aboutCore string) crash.Record {
	rec := crash.Record{
		Kind: crash.Service, Incarnation: d.Incarnation, Uptime: d.At, Frame: d.Ref.String(),
		Reason: d.Ref.String() + ": " + d.Why, WaitStatus: "it never ran",
	}
	if d.Started > 0 {
		rec.Ran = d.At - d.Started
	}
	if d.Exit != nil {
		rec.WaitStatus = d.Exit.String()
	}
	rec.Summary = []string{rec.Reason, fmt.Sprintf("command %s, restart %s, generation %d", strings.Join(d.Service.Command, " "), d.Service.Restart, d.Generation)}
	evidence := rec.Summary[1:]
	if r := d.Remains; r.Total > 0 {
		evidence = append(evidence, fmt.Sprintf("processes left over: %d: %s", r.Total, strings.Join(r.Left, ", ")))
	}
	evidence = append(evidence, d.Remains.Events...)
	if aboutCore != "" {
		evidence = append(evidence, aboutCore)
	}
	for _, i := range d.Instances {
		evidence = append(evidence, fmt.Sprintf("instance %s, generation %d, %s: gone with it", i.ID, i.Generation, i.State))
	}
	rec.Trace = []byte(strings.Join(evidence, "\n") + "\n")
	rec.Written = int64(len(rec.Trace))
	return rec
}

// lastLog is the end of an origin's log, a line a record.
func (n *Node) lastLog(ctx context.Context, origin string) ([]byte, error) {
	var lines []string
	end := uint64(0)
	for from := uint64(1); ; {
		page, err := n.init.Log(ctx, proc.LogQuery{From: from, Origins: []string{origin}, Max: proc.MaxLogPage})
		if err != nil {
			return nil, err
		}
		for _, r := range page.Records {
			lines = append(lines, fmt.Sprintf("[%9.3f] %s\n", r.Uptime.Seconds(), r.Text))
		}
		lines = lines[max(0, len(lines)-logOfDeath):]
		if end == 0 {
			end = page.End // what comes later is not of this death
		}
		if page.Next == from || page.Next >= end {
			return crash.Redact([]byte(strings.Join(lines, ""))), nil
		}
		from = page.Next
	}
}
