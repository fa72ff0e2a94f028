// Command demo is `make demo`: a controller on loopback and two nodes in QEMU,
// each with a TPM, two NICs in a bond and a bad serial line. Both enrol, seal,
// lose their power, and join again from what they sealed. It exits 0 only if
// they did.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"reveille/images/bench"
	"reveille/images/rack"
)

// patience is how long one boot of both nodes may take: 10 s where nothing
// else runs, minutes on a shared machine without virtualisation.
const patience = 10 * time.Minute

func main() {
	build := flag.String("build", "build", "folder with the products of `make image`")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := demo(ctx, *build); err != nil {
		fmt.Fprintln(os.Stderr, "demo:", err)
		os.Exit(1)
	}
}

// lines are the nodes' serial lines, as bad as racks have them.
var lines = []struct {
	node string
	pace bench.Pace
	what string
}{
	{"n1", bench.Limited(200), "read at 200 bytes a second"},
	{"n2", bench.StopsAfter(2 << 10), "its reader stops for ever after 2 KiB"},
}

func demo(ctx context.Context, build string) (err error) {
	r, err := rack.New(rack.Options{Build: build})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	if err := r.StartController(ctx); err != nil {
		return err
	}
	var nodes []*rack.Node
	for _, l := range lines {
		n, err := r.AddNode(ctx, rack.Machine{Name: l.node, TPM: true, Serial: []bench.Pace{l.pace}})
		if err != nil {
			return err
		}
		fmt.Printf("%s: two NICs in a bond, a TPM, ttyS0 %s\n", l.node, l.what)
		nodes = append(nodes, n)
	}
	s := &show{rack: r, nodes: nodes, out: os.Stdout}

	first, err := s.boot(ctx, "first boot: enrol with a ticket, seal", nil)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if err := n.PowerCut(); err != nil {
			return err
		}
	}
	second, err := s.boot(ctx, "power cut, second boot: unseal, join", first)
	if err != nil {
		return err
	}
	s.report(ctx, first, second)
	return check(first, second)
}

// check wants each node to be the same node twice, from a sealed config: its
// ticket was good for one enrolment only.
func check(first, second map[string]joined) error {
	var problems []error
	for name, a := range first {
		b := second[name]
		switch {
		case !a.view.Sealed || !b.view.Sealed:
			problems = append(problems, fmt.Errorf("%s: the config is not sealed", name))
		case a.view.ID != b.view.ID || a.view.KeySHA256 != b.view.KeySHA256:
			problems = append(problems, fmt.Errorf("%s: joined as another node", name))
		case b.view.Boots != 2:
			problems = append(problems, fmt.Errorf("%s: joined %d times", name, b.view.Boots))
		}
	}
	return errors.Join(problems...)
}
