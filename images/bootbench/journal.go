package main

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"reveille/boot/cluster/operator"
)

// floodLines is how many lines the flood of 200 KB has: see init/extra.go.
const floodLines = 200_000/floodLine + 1

const floodLine = len("flood line 000001: the quick brown fox jumps over the lazy dog\n")

// journal is what a node's log holds after a boot.
type journal struct {
	kernel, others, flood int           // records
	gaps                  uint64        // records that are gone
	linux, started        bool          // the first lines of the kernel and of init
	handed, first         time.Duration // uptime when the kernel started /init, and of init's first line
	memory                string
}

func newJournal(log []operator.Record) (j journal) {
	next := uint64(1)
	for _, r := range log {
		j.gaps += r.Seq - next
		next = r.Seq + 1
		j.take(r)
	}
	return j
}

func (j *journal) take(r operator.Record) {
	switch r.Origin {
	case "kernel":
		j.kernel++
		j.linux = j.linux || strings.HasPrefix(r.Text, "Linux version")
		if strings.HasPrefix(r.Text, "Run /init as init process") {
			j.handed = seconds(r.UptimeSeconds)
		}
	case "svc/flood":
		j.flood++
	default:
		j.others++
	}
	if r.Origin == "init" && !j.started {
		j.started = true
		j.first = seconds(r.UptimeSeconds)
	}
	if strings.HasPrefix(r.Text, "resident memory") {
		j.memory = r.Text
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// complete wants every record that is gone to be one of the flood's: those of
// the kernel and of the agent must all be there.
func (j journal) complete() error {
	if !j.linux || !j.started {
		return errors.New("the log lacks the beginning of the boot")
	}
	if missing := uint64(floodLines - j.flood); j.gaps != missing {
		return fmt.Errorf("%d records are gone, and %d lines of the flood: they must be the same", j.gaps, missing)
	}
	return nil
}
