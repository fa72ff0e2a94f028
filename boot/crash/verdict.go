package crash

import (
	"errors"
	"fmt"
	"strings"
)

// ErrNoDisk: there is no state partition.
var ErrNoDisk = errors.New("no state partition")

// Evidence is what this boot finds of the one before it.
type Evidence struct {
	Journal   Entry
	Err       error    // of reading the journal; ErrBlank: no boot wrote one; ErrNoDisk
	Pending   []Stored // records that the cluster does not have yet
	Harvested []Stored // those of them that pstore had kept until now
	Watchdog  bool     // the hardware says that it reset the machine
}

// End is how a boot ended.
type End string

// The ends of a boot.
const (
	Unknown     End = "unknown"
	Clean       End = "clean"
	AgentCrash  End = "agent crash"
	InitCrash   End = "init crash"
	KernelDeath End = "kernel panic"
	WatchdogEnd End = "watchdog"
	PowerLoss   End = "power loss"
)

// Verdict is how the previous boot ended, and the line that says so.
type Verdict struct {
	End  End
	Boot string // its id; empty when unknown
	Text string
	// Uncounted: it was restarted by what could not count that, the hardware
	// or the kernel.
	Uncounted bool
}

// Judge weighs the evidence, the strongest first: who says that it ended a boot
// is believed before what follows from silence. An agent's crash ends no boot:
// it is the verdict when the power went before the cluster had its record,
// since then the agent was not well again.
func Judge(e Evidence) Verdict {
	v := Verdict{Boot: e.Journal.BootID}
	panicked := lastOf(e.Harvested, func(r Stored) bool { return r.Kind == Kernel && strings.HasPrefix(r.Reason, KernelPanic) })
	ofBoot := func(k Kind) *Stored {
		return lastOf(e.Pending, func(r Stored) bool { return r.Kind == k && v.Boot != "" && r.BootID == v.Boot })
	}
	init, agent := ofBoot(Init), ofBoot(Agent)
	switch {
	case e.Err == nil && e.Journal.Clean && e.Journal.Forced:
		v.End, v.Text = AgentCrash, e.Journal.Reason
	case e.Err == nil && e.Journal.Clean:
		v.End, v.Text = Clean, e.Journal.Reason
		if e.Watchdog {
			v.Text += "; that hung, and the hardware watchdog reset the machine"
		}
	case init != nil:
		v.End, v.Text = InitCrash, init.Reason
	case panicked != nil:
		v.End, v.Text = panicEnd(panicked.Reason)
		v.Uncounted = true
	case e.Err == nil && e.Journal.Doomed != "":
		v.End, v.Text, v.Uncounted = WatchdogEnd, e.Journal.Doomed+"; so the watchdog was not fed", true
	case e.Watchdog:
		v.End, v.Text, v.Uncounted = WatchdogEnd, "the hardware watchdog reset the machine", true
	case errors.Is(e.Err, ErrNoDisk):
		v.End, v.Text = Unknown, "the state partition, which would tell, is not there"
	case errors.Is(e.Err, ErrBlank):
		v.End, v.Text = Unknown, "no boot before this one is on record"
	case e.Err != nil:
		v.End, v.Text = Unknown, e.Err.Error()
	case agent != nil:
		v.End, v.Text = AgentCrash, agent.Reason+"; power lost, or reset, before the cluster heard of it"
	default:
		v.End, v.Text = PowerLoss, "no ordered stop and no crash on record: power lost, or reset"
	}
	return v
}

// panicEnd tells apart what all ends in a panic.
func panicEnd(reason string) (End, string) {
	text := strings.TrimPrefix(reason, KernelPanic)
	switch {
	case strings.Contains(text, "Attempted to kill init"):
		return InitCrash, text
	case strings.Contains(strings.ToLower(text), "watchdog"):
		return WatchdogEnd, text
	}
	return KernelDeath, text
}

func lastOf(all []Stored, want func(Stored) bool) *Stored {
	for i := len(all) - 1; i >= 0; i-- {
		if want(all[i]) {
			return &all[i]
		}
	}
	return nil
}

// String is the line of a boot's log: "previous boot 1a2b3c4d: power loss: ...".
func (v Verdict) String() string {
	boot := v.Boot
	if boot == "" {
		boot = "?"
	}
	return fmt.Sprintf("previous boot %.8s: %s", boot, v.Told())
}

// Told is how it ended, without which it was.
func (v Verdict) Told() string { return fmt.Sprintf("%s: %s", v.End, v.Text) }
