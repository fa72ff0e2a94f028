// Command bootbench is the boot part of `make bench`: power-on to joined by
// serial line, side by side, while a child of init floods its output; what the
// log kept meanwhile; and what init and agent take.
//
// The machines that run this are noisy, so each round boots every kind once.
// What else they have to do only ever adds to a boot: what counts is the ratio of
// the fastest. The medians tell how noisy it was.
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

	"reveille/images/bench"
	"reveille/images/rack"
)

// target is the most that a bad serial line may cost a boot.
const target = 1.1

const patience = 10 * time.Minute

var kinds = []struct {
	name string
	pace bench.Pace
}{
	{"unlimited", bench.Unlimited()},
	{"200 B/s", bench.Limited(200)},
	{"dead from the first byte", bench.StopsAfter(1)},
	{"stops after 2 KiB", bench.StopsAfter(2 << 10)},
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
	took := make([]lives, len(kinds))
	var problems []error
	var last journal
	var handed, first []time.Duration
	for round := range rounds {
		for i, k := range kinds {
			times, log, err := life(ctx, build, k.pace)
			if err != nil {
				return fmt.Errorf("%s: %w", k.name, err)
			}
			if err := log.complete(); err != nil {
				problems = append(problems, fmt.Errorf("%s, round %d: %w", k.name, round+1, err))
			}
			for b, d := range times {
				took[i][b] = append(took[i][b], d)
			}
			last = log
			handed, first = append(handed, log.handed), append(first, log.first)
			fmt.Printf("round %d  %-24s enrol %5.1f s, rejoin %5.1f s, log: %d kernel and %d other records, %d of %d lines of the flood\n",
				round+1, k.name, times[0].Seconds(), times[1].Seconds(), log.kernel, log.others, log.flood, floodLines)
		}
	}
	problems = append(problems, compare(took)...)
	fmt.Printf("kernel start to /init %.2f s, to init's first line %.2f s (guest time, medians)\n", median(handed).Seconds(), median(first).Seconds())
	fmt.Println(last.memory)
	return errors.Join(append(problems, restart(ctx, build))...)
}

// lives are how long the first and the second boot of some nodes took.
type lives [2][]time.Duration

// compare prints what each kind of line took, and says which took too long.
func compare(took []lives) (problems []error) {
	fmt.Printf("\npower-on to joined, of %d          enrol: fastest, median     rejoin: fastest, median\n", len(took[0][0]))
	for i, k := range kinds {
		fmt.Printf("  %-30s", k.name)
		for b := range 2 {
			best, base := slices.Min(took[i][b]), slices.Min(took[0][b])
			ratio := best.Seconds() / base.Seconds()
			fmt.Printf("  %5.1f s x%.2f, %5.1f s     ", best.Seconds(), ratio, median(took[i][b]).Seconds())
			if ratio > target {
				problems = append(problems, fmt.Errorf("%s: %.2f times an unlimited reader, target %.2f", k.name, ratio, target))
			}
		}
		fmt.Println()
	}
	return problems
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

// life is a node's first two boots with a flood in each, and its log after the
// second.
func life(ctx context.Context, build string, pace bench.Pace) (times [2]time.Duration, log journal, err error) {
	m := rack.Machine{Name: "n1", TPM: true, Serial: []bench.Pace{pace}, Append: "reveille.fault=flood@modules"}
	err = onRack(ctx, build, m, func(ctx context.Context, _ *rack.Rack, n *rack.Node) error {
		var v rack.View
		for b := range times {
			if v, err = n.Boot(ctx, v.BootID); err != nil {
				return err
			}
			times[b] = time.Since(n.PoweredOn())
			if b == 0 {
				if err := n.PowerCut(); err != nil {
					return err
				}
			}
		}
		records, err := n.Records(ctx)
		log = newJournal(records)
		return err
	})
	return times, log, err
}

func median(d []time.Duration) time.Duration {
	d = slices.Sorted(slices.Values(d))
	return d[len(d)/2]
}
