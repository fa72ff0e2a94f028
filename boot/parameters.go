package boot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"reveille/boot/params"
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
	mu sync.Mutex
	p  *state.Partition
}

// mount returns the mounted state partition, looking for it until ctx ends.
func (p *partition) mount(ctx context.Context) (*state.Partition, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.p == nil {
		found, err := state.Mount(ctx, stateDir)
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
	log := n.logger("params")
	volumes := []params.Volume{{Name: "state partition"}}
	waiting, cancel := context.WithTimeout(ctx, lateDisk)
	defer cancel()
	if p, err := n.partition.mount(waiting); err != nil {
		log.Warn(err.Error() + ", going on to other sources")
	} else {
		volumes[0].Dir = strings.TrimPrefix(p.Dir(), "/")
		log.Info("state partition is " + p.Device)
	}
	p, looked, err := params.Load(ctx, params.Places{Root: os.DirFS("/"), Volumes: volumes})
	log.Info("node parameters: " + looked.String())
	if err != nil {
		return shorten(err)
	}
	n.params = p
	if err := unix.Sethostname([]byte(p.Name)); err != nil {
		log.Warn("set hostname: " + err.Error() + ", going on without it")
	}
	return nil
}

// manyProblems shows a document's problems in the log, all of them, and in one
// line elsewhere.
type manyProblems struct{ netcfg.Problems }

func (m manyProblems) Error() string {
	return fmt.Sprintf("%s (and %d more problems, all in the log)", m.Problems[0], len(m.Problems)-1)
}

func shorten(err error) error {
	var problems netcfg.Problems
	if errors.As(err, &problems) && len(problems) > 1 {
		return manyProblems{problems}
	}
	return err
}
