package pid1

import (
	"context"
	"fmt"
	"syscall"
	"time"

	"reveille/boot/proc"
	"reveille/console"
)

const (
	// hungAfter is how long an agent may give no sign of life. It gives one
	// every 2 s; a machine so busy that fifteen of them are late is no use
	// either.
	hungAfter = 30 * time.Second
	// dumpGrace is what a dying agent gets to print its goroutines. Go writes
	// some 2 MB/s of them on a fast machine, and far less than that is kept.
	dumpGrace = 10 * time.Second
)

// down notes and says that no agent runs, why, and when one will.
func (i *Init) down(text string) {
	i.error("%s", text)
	i.mu.Lock()
	defer i.mu.Unlock()
	i.agentDown = text
}

// born notes that an incarnation begins its life, which is a sign of life too;
// how far the one before it had come says nothing about it.
func (i *Init) born() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.agentDown = ""
	i.agentBegun = time.Now()
	i.heard = i.agentBegun
	i.progress = proc.Progress{}
}

func (i *Init) silence() time.Duration {
	i.mu.Lock()
	defer i.mu.Unlock()
	return time.Since(i.heard)
}

// endHung ends the incarnation if it goes silent. It returns the cause of the
// death, or "" if the agent says it by itself, or once ctx, the incarnation's
// life, is over.
//
// One that has said that it dies, and prints its goroutines, is left to it for a
// while only: a dump of some MB takes a slow machine a minute, and less than a
// tenth of one is kept.
func (i *Init) endHung(ctx context.Context, incarnation uint64, words *console.CrashCollector) (cause string) {
	for i.silence() < i.hungAfter {
		if words.Fatal() && i.silence() >= i.dumpGrace {
			i.warn("agent %d is dying, and not done with its dump within %s; killing", incarnation, i.dumpGrace)
			i.signalAgent(incarnation, syscall.SIGKILL)
			return ""
		}
		if !pause(ctx, min(i.hungAfter-i.silence(), lookAtAgent)) {
			return ""
		}
	}
	return i.askAndKill(ctx, incarnation)
}

// lookAtAgent is how often init looks whether its agent is silent.
const lookAtAgent = time.Second

// askAndKill asks a hung agent for its goroutines, which become its crash text,
// and kills it. It returns the cause of the death.
func (i *Init) askAndKill(ctx context.Context, incarnation uint64) (cause string) {
	cause = fmt.Sprintf("hung: no progress for %s", i.hungAfter)
	i.error("agent %d %s; asking it where it is, then killing it", incarnation, cause)
	// One that was stopped (SIGSTOP) takes no signal before it goes on.
	i.signalAgent(incarnation, syscall.SIGQUIT)
	i.signalAgent(incarnation, syscall.SIGCONT)
	if pause(ctx, i.dumpGrace) {
		i.warn("agent %d did not end within %s of SIGQUIT; killing", incarnation, i.dumpGrace)
		i.signalAgent(incarnation, syscall.SIGKILL)
	}
	return cause
}

func (i *Init) signalAgent(incarnation uint64, sig syscall.Signal) {
	// An error means that it is dead already, which is what is wanted, ignoring.
	_ = i.table.Signal(proc.AgentName, incarnation, sig)
}
