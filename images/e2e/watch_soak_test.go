//go:build e2e && soak

package e2e

import (
	"context"
	"regexp"
	"strconv"
	"testing"
	"time"

	"reveille/boot/cluster/operator"
	"reveille/images/rack"
)

const (
	// watchWindow is what one line of the watch tells about: see init/extra.go.
	watchWindow = 5 * time.Second
	// restfulFor is how many of them are looked at once all is done.
	restfulFor = 3
	// watchPatience is the longest that those are waited for: watch may have died.
	watchPatience = time.Minute
	// idle is the most that init may take of one processor then, in percent,
	// without what its host took away meanwhile.
	idle = 5.0
	// inDriver is the longest that a thread of init may stand in D state. It does
	// to write a file, or for the kernel to forget a console: up to 0.9 s were
	// seen on a machine ten times too busy. A console that is waited for holds a
	// writer for 18 s and longer.
	inDriver = 3 * time.Second
)

var watched = regexp.MustCompile(`^watch: cpu ([0-9.]+) % \(.*\), longest D (\d+) ms in (\S*)$`)

// atRest watches init for a while after the boot, and the flood, are over: it
// must take next to nothing, and must never have waited in a driver. Whoever
// reads the log makes init work, so nobody does meanwhile.
func atRest(t *testing.T, ctx context.Context, n *rack.Node) {
	t.Helper()
	ctx, cancel := context.WithTimeout(ctx, watchPatience)
	defer cancel()
	log := records(t, ctx, n)
	began := seconds(log[len(log)-1].UptimeSeconds)
	after(ctx, (restfulFor+1)*watchWindow)
	loads, longest, where := watch(records(t, ctx, n), began)
	for ; len(loads) < restfulFor && ctx.Err() == nil; loads, longest, where = watch(records(t, ctx, n), began) {
		after(ctx, watchWindow)
	}
	t.Logf("init takes %v %% of a processor, longest in D state %s in %s", loads, longest, where)
	if len(loads) < restfulFor {
		t.Fatalf("init is watched no more: %v", ctx.Err())
	}
	if longest > inDriver {
		t.Errorf("a thread of init was in D state for %s in %s", longest, where)
	}
	for _, load := range loads {
		if load > idle {
			t.Errorf("init takes %.1f %% of a processor", load)
		}
	}
}

// watch is what init took in each window since then, in percent, and the longest
// that one of its threads was in D state in the whole boot, and where.
func watch(log []operator.Record, since time.Duration) (loads []float64, longest time.Duration, where string) {
	for _, r := range log {
		m := watched.FindStringSubmatch(r.Text)
		if m == nil {
			continue
		}
		ms, _ := strconv.Atoi(m[2]) // the pattern allows nothing else
		if d := time.Duration(ms) * time.Millisecond; d > longest {
			longest, where = d, m[3]
		}
		if load, _ := strconv.ParseFloat(m[1], 64); seconds(r.UptimeSeconds)-watchWindow > since {
			loads = append(loads, load)
		}
	}
	return loads, longest, where
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
