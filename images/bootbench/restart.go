package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"reveille/boot/cluster/operator"
	"reveille/images/bench"
	"reveille/images/rack"
)

// restartTarget is the most that an ordered restart may take, however much
// waits for the console.
const restartTarget = 10 * time.Second

// floodLine is how long a line of a flood is.
const floodLine = len("flood line 000001: the quick brown fox jumps over the lazy dog\n")

// The last line of a flood of 10 MB: see init/extra.go.
const lastLine = "flood line %06d: the quick brown fox jumps over the lazy dog"

// restart restarts a node whose console reads 960 bytes a second and was given
// 10 MB by a service, and prints how long that took.
func restart(ctx context.Context, build string) error {
	m := rack.Machine{Name: "n1", TPM: true, Serial: []bench.Pace{bench.Limited(960)},
		Append: "reveille.fault=flood10MB@services reveille.show=" + floodOrigin}
	return onRack(ctx, build, []rack.Machine{m}, func(ctx context.Context, _ *rack.Rack, nodes []*rack.Node) error {
		n := nodes[0]
		if _, err := n.Boot(ctx, ""); err != nil {
			return err
		}
		last := fmt.Sprintf(lastLine, 10_000_000/floodLine+1)
		for said := false; !said; {
			log, err := n.Records(ctx)
			if err != nil {
				return err
			}
			said = slices.ContainsFunc(log, func(r operator.Record) bool { return r.Text == last })
		}
		begun := time.Now()
		if err := n.PressCtrlAltDel(ctx); err != nil {
			return err
		}
		if err := n.WaitReboots(ctx, 1); err != nil {
			return err
		}
		took := time.Since(begun)
		fmt.Printf("ctrl-alt-del to reset, 10 MB logged to a console of 960 B/s: %.1f s\n", took.Seconds())
		if took > restartTarget {
			return fmt.Errorf("an ordered restart took %s, target %s", took, restartTarget)
		}
		return nil
	})
}
