package boot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"reveille/boot/params"
	"reveille/boot/proc"
	"reveille/boot/state"
	"reveille/netcfg"
)

const (
	// stateDir is where the state partition is mounted.
	stateDir = "/run/reveille/state"
	// lateDisk is how long the parameters wait for the state partition: a
	// disk that is slower (a spinning one takes 10 s) is still found by the
	// stage that needs it, only its node.yaml is not read before others.
	lateDisk = 3 * time.Second
)

// partition is the state partition, once it is there.
type partition struct {
	mu     sync.Mutex
	finder *state.Finder
	p      *state.Partition
}

// mount returns the mounted state partition, looking for it until ctx ends.
func (p *partition) mount(ctx context.Context) (*state.Partition, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.finder == nil {
		p.finder = state.NewFinder()
	}
	if p.p == nil {
		found, err := p.finder.Mount(ctx, stateDir)
		if err != nil {
			return nil, err
		}
		p.p = found
	}
	return p.p, nil
}

// parameters finds the node's node.yaml and checks it whole. What is wrong
// there is shown once, each problem with its place; the source may be
// corrected while the node waits.
func (n *Node) parameters(ctx context.Context) error {
	volumes := []params.Volume{{Name: "state partition"}}
	waiting, cancel := context.WithTimeout(ctx, lateDisk)
	defer cancel()
	if p, err := n.partition.mount(waiting); err != nil {
		n.said.log(n.logger("params"), slog.LevelWarn, err.Error()+", going on to other sources")
	} else {
		volumes[0].Dir = strings.TrimPrefix(p.Dir(), "/")
		n.stateMounted(ctx)
	}
	p, looked, err := n.loadParameters(ctx, params.Places{Root: os.DirFS("/"), Volumes: volumes})
	if err != nil {
		level := slog.LevelDebug // what is wrong has its place with it
		if none := (*params.NotFoundError)(nil); errors.As(err, &none) {
			level = slog.LevelWarn
		}
		n.said.log(n.logger("params"), level, "looked for node parameters in "+looked.String())
		return n.showProblems(err)
	}
	n.logger("params").Info("node parameters from " + p.Source)
	n.logger("params").Debug("looked for node parameters in " + looked.String())
	n.params = p
	if err := unix.Sethostname([]byte(p.Name)); err != nil {
		n.logger("params").Warn("set hostname: " + err.Error() + ", going on without it")
	}
	return nil
}

// loadParameters takes those that an agent before this one used in this boot,
// and looks for them only if there was none: what runs is by them, and a source
// that was late, or has changed or gone since, must not change it unasked.
func (n *Node) loadParameters(ctx context.Context, places params.Places) (p *params.Params, looked params.Search, err error) {
	if places.Kept, err = n.init.Kept(ctx, proc.KeptNodeYAML); err != nil {
		return nil, nil, err
	}
	if p, looked, err = params.Load(ctx, places); err != nil {
		return nil, looked, err
	}
	if err := n.init.Keep(ctx, proc.KeptNodeYAML, p.Keep()); err != nil {
		n.logger("params").Warn("leave node parameters with init: " + err.Error() + ", going on: an agent after this one looks for them again")
	}
	return p, looked, nil
}

// showProblems logs each problem of a document in a line of its own, and
// returns one that counts them, for the lines that repeat.
func (n *Node) showProblems(err error) error {
	var problems netcfg.Problems
	if !errors.As(err, &problems) || len(problems) < 2 {
		return err
	}
	for _, p := range problems {
		n.said.log(n.logger("params"), slog.LevelWarn, p.String())
	}
	if len(problems) == 2 {
		return fmt.Errorf("%s (and one more problem, in the log)", problems[0])
	}
	return fmt.Errorf("%s (and %d more problems, in the log)", problems[0], len(problems)-1)
}

// saidOnce keeps what a stage says at each of its tries from being said again
// before it changes.
type saidOnce struct{ lines map[string]bool }

func (s *saidOnce) log(to *slog.Logger, level slog.Level, line string) {
	if s.lines[line] {
		return
	}
	if s.lines == nil {
		s.lines = map[string]bool{}
	}
	s.lines[line] = true
	to.Log(context.Background(), level, line)
}
