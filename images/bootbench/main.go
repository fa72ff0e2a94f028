// Command bootbench is the boot part of `make bench`: power-on to joined by
// serial line, quiet and while a service writes 50 MB to the console; what init
// and agent take; and an ordered restart with a long backlog.
//
// The machines that run this are noisy: one boot may take half as long again as
// the next. So a node on a bad line and one on a good line boot at the same time,
// and what counts is the ratio of the two. Two good lines tell how noisy that is.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"slices"
	"sync"
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
type load struct {
	name, words string
	flood       bool
}

var loads = []load{
	{name: "quiet"},
	{name: "50 MB", words: "reveille.fault=flood50MB@modules reveille.show=" + floodOrigin, flood: true},
}

const floodOrigin = "svc/flood"

func main() {
	build := flag.String("build", "build", "folder with the products of `make image` and `make image FAULTS=1`")
	rounds := flag.Int("rounds", 5, "boots of each kind")
	only := flag.String("run", "", "regexp: the kinds to measure, as \"50 MB, dead\"")
	flag.Parse()
	chosen, err := regexp.Compile(*only)
	if err != nil {
		fmt.Fprintln(os.Stderr, "bootbench: -run:", err)
		os.Exit(2)
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, *build, chosen, *rounds); err != nil {
		fmt.Fprintln(os.Stderr, "bootbench:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, build string, chosen *regexp.Regexp, rounds int) error {
	var kinds []kind
	for _, load := range loads {
		for _, line := range rack.SerialLines {
			if k := (kind{line, load}); chosen.MatchString(k.String()) {
				kinds = append(kinds, k)
			}
		}
	}
	took := map[string][]pair{}
	var began starts
	for round := range rounds {
		for _, k := range kinds {
			pairs, log, err := beside(ctx, build, k)
			if err != nil {
				return fmt.Errorf("%s: %w", k, err)
			}
			took[k.String()] = append(took[k.String()], pairs[:]...)
			began.read(log)
			fmt.Printf("round %d, %-30s enrol %s, rejoin %s\n", round+1, k, pairs[0], pairs[1])
		}
	}
	var problems []error
	for _, k := range kinds {
		problems = append(problems, judge(k, took[k.String()]))
	}
	fmt.Println(began)
	return errors.Join(append(problems, restart(ctx, build))...)
}

// kind is a line and what is said on it.
type kind struct {
	line rack.SerialLine
	load load
}

func (k kind) String() string { return k.load.name + ", " + k.line.Name }

// pair is how long two nodes took that booted at the same time.
type pair struct{ good, bad time.Duration }

func (p pair) ratio() float64 { return p.bad.Seconds() / p.good.Seconds() }

func (p pair) String() string { return fmt.Sprintf("%4.1f s x%.2f", p.bad.Seconds(), p.ratio()) }

// judge prints what a kind of line took, and says whether that is too long.
func judge(k kind, took []pair) error {
	var ratios []float64
	var times []time.Duration
	for _, p := range took {
		ratios, times = append(ratios, p.ratio()), append(times, p.bad)
	}
	ratio := median(ratios)
	fmt.Printf("%-30s joined after %4.1f s (median of %d), x%.2f of a good line (%.2f to %.2f)\n",
		k, median(times).Seconds(), len(times), ratio, slices.Min(ratios), slices.Max(ratios))
	if ratio > target {
		return fmt.Errorf("%s: %.2f of a good line's time, target %.2f", k, ratio, target)
	}
	return nil
}

// onRack has a controller running and machines in the rack, off.
func onRack(ctx context.Context, build string, machines []rack.Machine, do func(context.Context, *rack.Rack, []*rack.Node) error) (err error) {
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
	var nodes []*rack.Node
	for _, m := range machines {
		n, err := r.AddNode(ctx, m)
		if err != nil {
			return err
		}
		nodes = append(nodes, n)
	}
	return do(ctx, r, nodes)
}

// beside is the first two boots of a node on the line and of one on a good line,
// at the same time, and the former's log after the second.
func beside(ctx context.Context, build string, k kind) (pairs [2]pair, log []operator.Record, err error) {
	lines := []rack.SerialLine{rack.SerialLines[0], k.line}
	var machines []rack.Machine
	for i, line := range lines {
		machines = append(machines, rack.Machine{Name: fmt.Sprint("n", i+1), TPM: true, Serial: []bench.Pace{line.Pace}, Cards: line.Cards,
			Append: k.load.words + " " + line.Words})
	}
	err = onRack(ctx, build, machines, func(ctx context.Context, r *rack.Rack, nodes []*rack.Node) error {
		var last [2]string // boot id
		for b := range pairs {
			var all sync.WaitGroup
			var errs [2]error
			took := []*time.Duration{&pairs[b].good, &pairs[b].bad}
			for i, n := range nodes {
				all.Go(func() {
					var v rack.View
					v, errs[i] = boot(ctx, r, n, lines[i], last[i])
					*took[i], last[i] = time.Since(n.PoweredOn()), v.BootID
				})
			}
			all.Wait()
			if err := errors.Join(errs[:]...); err != nil {
				return err
			}
			if b == 0 {
				for _, n := range nodes {
					if err := n.PowerCut(); err != nil {
						return err
					}
				}
			}
		}
		if log, err = nodes[1].Records(ctx); err != nil {
			return err
		}
		if said := slices.ContainsFunc(log, func(r operator.Record) bool { return r.Origin == floodOrigin }); said != k.load.flood {
			return fmt.Errorf("a flood in the log of n2: %t, want %t", said, k.load.flood)
		}
		return nil
	})
	return pairs, log, err
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
	if err != nil {
		err = fmt.Errorf("%s: %w, its console:\n%s", line.Name, err, tail(n.Port(0).Bytes()))
	}
	return v, errors.Join(err, <-done)
}

// tail is the end of what a console shows.
func tail(text []byte) []byte { return text[max(0, len(text)-4<<10):] }

func median[T float64 | time.Duration](all []T) T {
	all = slices.Sorted(slices.Values(all))
	return (all[(len(all)-1)/2] + all[len(all)/2]) / 2
}
