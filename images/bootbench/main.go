// Command bootbench is the boot part of `make bench`: power-on to joined by
// serial line, side by side, quiet and while a service writes 50 MB to the
// console; what init and agent take; and an ordered restart with a long backlog.
//
// The machines that run this are noisy, so each round boots every kind once, and
// the medians of the rounds are compared.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"

	"reveille/boot/cluster/operator"
	"reveille/images/bench"
	"reveille/images/rack"
)

// target is the most that a bad serial line may cost a boot.
const target = 1.1

const patience = 10 * time.Minute

// load is what a node does on its console while it boots.
type load struct{ name, words string }

var loads = []load{
	{"quiet", ""},
	{"50 MB", "reveille.fault=flood50MB@modules reveille.show=svc/flood"},
}

func main() {
	build := flag.String("build", "build", "folder with the products of `make image` and `make image FAULTS=1`")
	rounds := flag.Int("rounds", 5, "boots of each kind")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *build, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "bootbench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, build string, rounds int) error {
	took := make([][]lives, len(loads)) // by load and line
	for i := range took {
		took[i] = make([]lives, len(rack.SerialLines))
	}
	var began starts
	for round := range rounds {
		for i, load := range loads {
			for k, line := range rack.SerialLines {
				times, log, err := life(ctx, build, line, load)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", line.Name, load.name, err)
				}
				for b, d := range times {
					took[i][k][b] = append(took[i][k][b], d)
				}
				began.read(log)
				fmt.Printf("round %d, %s  %-24s enrol %5.1f s, rejoin %5.1f s\n",
					round+1, load.name, line.Name, times[0].Seconds(), times[1].Seconds())
			}
		}
	}
	var problems []error
	for i, load := range loads {
		problems = append(problems, compare(took[i], load))
	}
	fmt.Println(began)
	return errors.Join(append(problems, restart(ctx, build))...)
}

// lives are how long the first and the second boot of some nodes took.
type lives [2][]time.Duration

// compare prints what each kind of line took, and says which took too long.
func compare(took []lives, load load) error {
	var problems []error
	fmt.Printf("\npower-on to joined, %s: median of %d, of the good line's (least to most)\n", load.name, len(took[0][0]))
	for k, line := range rack.SerialLines {
		fmt.Printf("  %-26s", line.Name)
		for b, boot := range []string{"enrol", "rejoin"} {
			d := took[k][b]
			ratio := median(d).Seconds() / median(took[0][b]).Seconds()
			fmt.Printf("  %s %4.1f s x%.2f (%.1f to %.1f)", boot,
				median(d).Seconds(), ratio, slices.Min(d).Seconds(), slices.Max(d).Seconds())
			if ratio > target {
				problems = append(problems, fmt.Errorf("%s, %s: to %s took %.2f of a good line's time, target %.2f",
					line.Name, load.name, boot, ratio, target))
			}
		}
		fmt.Println()
	}
	return errors.Join(problems...)
}

// onRack has a controller running and a machine in the rack, off.
func onRack(ctx context.Context, build string, m rack.Machine, do func(context.Context, *rack.Rack, *rack.Node) error) (err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r, err := rack.New(rack.Options{Build: build, Faults: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := r.StartController(ctx); err != nil {
		return err
	}
	n, err := r.AddNode(ctx, m)
	if err != nil {
		return err
	}
	return do(ctx, r, n)
}

// life is a node's first two boots, and its log after the second.
func life(ctx context.Context, build string, line rack.SerialLine, load load) (times [2]time.Duration, log []operator.Record, err error) {
	m := rack.Machine{Name: "n1", TPM: true, Serial: []bench.Pace{line.Pace}, Cards: line.Cards, Append: load.words + " " + line.Words}
	err = onRack(ctx, build, m, func(ctx context.Context, r *rack.Rack, n *rack.Node) error {
		var last rack.View
		for b := range times {
			if last, err = boot(ctx, r, n, line, last.BootID); err != nil {
				return err
			}
			times[b] = time.Since(n.PoweredOn())
			if b == 0 {
				if err := n.PowerCut(); err != nil {
					return err
				}
			}
		}
		log, err = n.Records(ctx)
		return err
	})
	return times, log, err
}

// boot boots the node, with on the line what happens there, until it is joined.
func boot(ctx context.Context, r *rack.Rack, n *rack.Node, line rack.SerialLine, last string) (rack.View, error) {
	if err := n.PowerOn(ctx); err != nil {
		return rack.View{}, err
	}
	until, joined := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() {
		var err error
		if line.Do != nil {
			err = line.Do(until, n)
		}
		if until.Err() != nil {
			err = nil // joined before the line was done
		}
		done <- err
	}()
	v, err := r.WaitFor(ctx, n.Name, rack.Joined(last))
	joined()
	return v, errors.Join(err, <-done)
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}
