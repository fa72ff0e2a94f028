package boot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"reveille/boot/join"
	"reveille/boot/modules"
	"reveille/boot/params"
	"reveille/boot/proc"
	"reveille/boot/service/payload"
	"reveille/boot/supervise"
	"reveille/console"
	"reveille/netcfg"
)

// Options is what init hands its agent.
type Options struct {
	Control     net.Conn                         // the control socket
	Logger      func(origin string) *slog.Logger // into init's log
	Incarnation uint64                           // 1 for the first agent of this boot
	Build       Build
}

// Build says which program this is.
type Build struct {
	ID   string
	Time time.Time // of its last change: no clock of ours may be before it
}

// Node is one boot of one machine as the agent sees it. Each stage fills in
// what the stages after it need; a field is written before its stage is done
// and only read afterwards, so the table's order is its lock.
type Node struct {
	init        *proc.Client
	logger      func(origin string) *slog.Logger
	track       *Tracker
	incarnation uint64
	build       Build
	bootID      string
	settings    params.Settings // of the command line

	loader    *modules.Loader                   // modules
	params    *params.Params                    // parameters
	said      saidOnce                          // parameters, then config
	partition partition                         // parameters, or config when the disk is late
	net       *netcfg.Reconciler                // network
	early     atomic.Pointer[netcfg.Reconciler] // the same, for progress, which does not wait for the stage
	clockSet  trustedClock                      // clock, and again by config and join
	opened    opened                            // config
	client    *join.Client                      // config
	desired   desired                           // config, then by heartbeats
	payloads  *payload.Store                    // for services
	nudged    chan struct{}                     // by the controller, to send a heartbeat
	member    *join.Membership                  // join
	known     known                             // of init's, for heartbeats

	supervisor atomic.Pointer[supervise.Supervisor] // services
	recorded   chan struct{}                        // init has a new record

	changing sync.Mutex // held while the stored config changes
	upkeep   sync.Map   // names of what keep runs
}

const levelStage = console.LevelStage

// Run is the agent's life: the stages, then the upkeep of what they set up. It
// returns when ctx ends, or with proc.ErrInitGone.
func Run(ctx context.Context, o Options) error {
	n := &Node{
		init:        proc.NewClient(o.Control),
		logger:      o.Logger,
		track:       NewTracker(Stages),
		incarnation: o.Incarnation,
		build:       o.Build,
		bootID:      bootID(),
		nudged:      make(chan struct{}, 1),
		payloads:    &payload.Store{Dir: payloadsDir, Log: o.Logger("services")},
		recorded:    make(chan struct{}, 1),
	}
	n.payloads.Wanted = n.wantedPayloads
	n.settings = n.readSettings()
	// Until init says how they died: each agent before this one did.
	n.known.crashes.Count = uint32(o.Incarnation - 1)
	if o.Incarnation > 1 {
		n.logger("agent").Warn("started again after a crash", "incarnation", o.Incarnation)
	}
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	go func() { end(n.report(ctx)) }()
	r := &runner{stages: Stages, node: n, track: n.track, logger: n.logger}
	if r.run(ctx) == nil {
		<-ctx.Done()
	}
	return context.Cause(ctx)
}

// readSettings takes what is right of the command line; what is wrong there
// is named when the parameters are read.
func (n *Node) readSettings() params.Settings {
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		n.logger("agent").Warn("read kernel command line: " + err.Error() + ", going on without its settings")
	}
	settings, _ := params.ParseCommandLine(strings.TrimSpace(string(line)))
	return settings
}

// heartbeat is how often init hears from a healthy agent at least.
const heartbeat = 2 * time.Second

// report keeps init informed of the stage and of what is awaited, until ctx
// ends or init is gone: an agent that init does not hear must not go on, for
// nobody would see it.
func (n *Node) report(ctx context.Context) error {
	for {
		changed := n.track.Changed()
		if err := n.init.SetStage(ctx, n.progress()); errors.Is(err, proc.ErrInitGone) {
			return fmt.Errorf("report to init: %w", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-time.After(heartbeat):
		}
	}
}

// keep runs an upkeep until ctx ends. One that returns is run again: nothing
// that a stage set up may quietly stop. A stage that is tried again may ask
// for the same again.
func (n *Node) keep(ctx context.Context, origin string, upkeep func(context.Context) error) {
	if _, runs := n.upkeep.LoadOrStore(origin, true); runs {
		return
	}
	go func() {
		log := n.logger(origin)
		pause := retries{}
		for {
			begun := time.Now()
			err := upkeep(ctx)
			if ctx.Err() != nil {
				return
			}
			if time.Since(begun) > time.Minute {
				pause = retries{} // it was well for long enough
			}
			wait := pause.next()
			text := "ended"
			if err != nil {
				text = err.Error()
			}
			log.Warn(text + "; next try in " + shortDuration(wait).String())
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
		}
	}()
}

// bootID is the kernel's random name of this boot (drivers/char/random.c).
func bootID() string {
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return "unknown"
	}
	return strings.TrimSpace(string(id))
}
