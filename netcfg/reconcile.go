package netcfg

import (
	"context"
	"log/slog"
)

// Options changes how a Reconciler works; the zero value serves a node.
type Options struct {
	// ResolvConf is the file that gets the document's name servers; "" leaves
	// name resolution alone.
	ResolvConf string
}

// Report is what one Converge did.
type Report struct {
	Passes int    // observations, the last of which gave an empty plan
	Writes int    // netlink requests, sysctl and file writes
	Ops    []Op   // in the order they were done
	Waits  []Wait // what no write can bring: a missing NIC, an address in DAD
}

// Reconciler keeps the machine's network as a Config wants it.
type Reconciler struct {
	cfg *Config
	log *slog.Logger
	opt Options
}

// New makes a reconciler; nothing is touched before Converge or Run.
func New(cfg *Config, log *slog.Logger, opt Options) *Reconciler {
	return &Reconciler{cfg: cfg, log: log, opt: opt}
}

// Converge makes the network what the document says: it observes, plans and
// applies until the plan is empty.
func (r *Reconciler) Converge(ctx context.Context) (Report, error) { return Report{}, nil }

// Run keeps the network converged until ctx ends.
func (r *Reconciler) Run(ctx context.Context) error { <-ctx.Done(); return nil }

// Status is the network as of the last observation.
func (r *Reconciler) Status() Status { return Status{} }

// WaitFor returns when ready says yes to a status, or with ctx's error.
func (r *Reconciler) WaitFor(ctx context.Context, ready func(Status) bool) error { return nil }
