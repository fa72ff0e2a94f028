package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"time"

	"golang.org/x/term"

	"reveille/images/rack"
)

// show boots nodes and shows how they get on: a table that is drawn over
// itself on a terminal, a line for each change elsewhere.
type show struct {
	rack  *rack.Rack
	nodes []*rack.Node
	out   io.Writer

	last  map[string]string // what was last said of each node
	drawn int               // lines of the table on the terminal
}

// joined is a node that became a member.
type joined struct {
	view rack.View
	took time.Duration // from power-on
}

const refresh = 500 * time.Millisecond

// boot powers all nodes on and returns when all have joined in another boot
// than before.
func (s *show) boot(ctx context.Context, title string, before map[string]joined) (map[string]joined, error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	fmt.Fprintf(s.out, "\n== %s\n", title)
	s.last, s.drawn = map[string]string{}, 0
	for _, n := range s.nodes {
		if err := n.PowerOn(ctx); err != nil {
			return nil, err
		}
	}
	done := map[string]joined{}
	for len(done) < len(s.nodes) {
		views, err := s.rack.List(ctx)
		if err != nil {
			return nil, err
		}
		for _, n := range s.nodes {
			v := viewOf(views, n.Name)
			if _, ok := done[n.Name]; !ok && rack.Joined(before[n.Name].view.BootID)(v) {
				done[n.Name] = joined{v, time.Since(n.PoweredOn())}
			}
		}
		s.draw(views, done, before)
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("%s: %w; ask the serial lines above", title, context.Cause(ctx))
		case <-time.After(refresh):
		}
	}
	return done, nil
}

func viewOf(views []rack.View, name string) rack.View {
	for _, v := range views {
		if v.Name == name {
			return v
		}
	}
	return rack.View{}
}

// draw shows one row a node.
func (s *show) draw(views []rack.View, done, before map[string]joined) {
	live := term.IsTerminal(int(os.Stdout.Fd()))
	if live && s.drawn > 0 {
		fmt.Fprintf(s.out, "\x1b[%dA", s.drawn)
	}
	s.drawn = 0
	for _, n := range s.nodes {
		row := s.row(n, viewOf(views, n.Name), done, before)
		age := time.Since(n.PoweredOn()).Seconds()
		if d, ok := done[n.Name]; ok {
			age = d.took.Seconds()
		}
		switch {
		case live:
			fmt.Fprintf(s.out, "\x1b[2K%6.1fs  %s\n", age, row)
			s.drawn++
		case s.last[n.Name] != row:
			fmt.Fprintf(s.out, "%6.1fs  %s\n", age, row)
		}
		s.last[n.Name] = row
	}
}

// row tells the two sides of a node: what its serial line has shown so far,
// which lags, and what the cluster knows.
func (s *show) row(n *rack.Node, v rack.View, done, before map[string]joined) string {
	cluster := "nothing yet"
	switch b, again := before[n.Name]; {
	case again && v.BootID == b.view.BootID:
		cluster = "nothing of this boot"
	case v.Name != "":
		cluster = v.State + ", " + v.Stage
		if v.Reason != "" {
			cluster += ": " + v.Reason
		}
	}
	if d, ok := done[n.Name]; ok {
		cluster = fmt.Sprintf("joined after %.1f s, sealed %t", d.took.Seconds(), d.view.Sealed)
	}
	return fmt.Sprintf("%-4s console: %-34s cluster: %s", n.Name, s.console(n), cluster)
}

var stageLine = regexp.MustCompile(`\] (\S+) +S ([^\r\n]*)\r?\n`)

func (s *show) console(n *rack.Node) string {
	var text []byte
	for _, c := range n.Port(0).Chunks() {
		if c.At.After(n.PoweredOn()) {
			text = append(text, c.Data...)
		}
	}
	all := stageLine.FindAllSubmatch(text, -1)
	if len(all) == 0 {
		return "no stage yet"
	}
	last := all[len(all)-1]
	what := fmt.Sprintf("%s %s", last[1], last[2])
	return what[:min(len(what), 34)]
}

// report prints what an operator would compare afterwards.
func (s *show) report(ctx context.Context, first, second map[string]joined) {
	for i, n := range s.nodes {
		fmt.Fprintf(s.out, "\n== %s, all that ttyS0 showed in both boots (%s)\n", n.Name, lines[i].what)
		for line := range strings.Lines(string(n.Port(0).Bytes())) {
			fmt.Fprintf(s.out, "  | %s\n", strings.TrimRight(line, "\r\n"))
		}
	}
	fmt.Fprintf(s.out, "\n== power-on to joined\n")
	for _, n := range s.nodes {
		fmt.Fprintf(s.out, "%s: %.1f s enrolling, %.1f s from the sealed config\n",
			n.Name, first[n.Name].took.Seconds(), second[n.Name].took.Seconds())
	}
	fmt.Fprintf(s.out, "\n== reveille node list\n")
	table, err := s.rack.Operator(ctx, "node", "list")
	if err != nil {
		fmt.Fprintln(s.out, err)
		return
	}
	_, _ = s.out.Write(table) // the terminal is gone when this fails
}
