package main

import (
	"fmt"
	"strings"
	"time"

	"reveille/boot/cluster/operator"
)

// starts is what the nodes' logs say of the beginning of each boot.
type starts struct {
	handed, first []time.Duration // uptime when the kernel started /init, and of init's first line
	memory        string          // the last that the agent said of itself and of init
}

func (s *starts) read(log []operator.Record) {
	started := false
	for _, r := range log {
		uptime := time.Duration(r.UptimeSeconds * float64(time.Second))
		switch {
		case r.Origin == "kernel" && strings.HasPrefix(r.Text, "Run /init as init process"):
			s.handed = append(s.handed, uptime)
		case r.Origin == "init" && !started:
			started = true
			s.first = append(s.first, uptime)
		case strings.HasPrefix(r.Text, "resident memory"):
			s.memory = r.Text
		}
	}
}

func (s starts) String() string {
	if len(s.handed) == 0 || len(s.first) == 0 {
		return "the logs do not say when init started"
	}
	return fmt.Sprintf("kernel start to /init %.2f s, to init's first line %.2f s (guest time, medians)\n%s\n",
		median(s.handed).Seconds(), median(s.first).Seconds(), s.memory)
}
