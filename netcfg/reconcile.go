package netcfg

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"
)

const (
	// maxPasses bounds one convergence: its passes that write. Every measured
	// start state needs at most three of them and one that reads back; twice
	// that leaves room for others who change things meanwhile.
	maxPasses = 8

	// dadWait bounds the wait for duplicate address detection: the kernel waits
	// up to 1 s before it probes and 1 s after (RFC 4861 MAX_RTR_SOLICITATION_DELAY,
	// RetransTimer), once per dad_transmits, which is 1 unless somebody raised it.
	dadWait = 5 * time.Second

	// leasePatience bounds Converge's wait for DHCP servers and for the carrier that
	// they are behind. A port that opens late takes a minute: Run's business.
	leasePatience = 30 * time.Second

	// settle is the least time from one reading of the network to the next that
	// events ask for, however many come.
	settle = 100 * time.Millisecond

	// gather is how long the events of one change are waited for before the
	// network is read: a carrier alone makes five, within a millisecond.
	gather = 4 * time.Millisecond
)

// Options changes how a Reconciler works; the zero value serves a node.
type Options struct {
	// ResolvConf is the file that gets the document's name servers; "" leaves
	// name resolution alone. A document without servers never touches it.
	ResolvConf string
	// Hosts is the file that SetHosts writes; "" for none.
	Hosts string
	// Sysctls are kernel settings to hold, in their order; a setting that the
	// kernel does not have or take is named, and holds nothing else up.
	Sysctls []Sysctl
	// LoadModule loads a kernel module by name, for settings that need one;
	// nil for nobody does.
	LoadModule func(name string) error
	// Leases is a folder on a tmpfs that keeps DHCP leases over a restart of the
	// program; "" asks the servers again.
	Leases string
	// Applied is told each operation that succeeded; nil for nobody.
	Applied func(Op)
}

// Report is what one Converge did.
type Report struct {
	Passes int    // observations, the last of which gave an empty plan
	Writes int    // netlink requests, sysctl and file writes, refused ones included
	Ops    []Op   // those that succeeded, in the order they were done
	Waits  []Wait // what no write can bring: a missing NIC, an address in DAD
}

// network is what a Reconciler works on: the kernel, or a fake of it.
type network interface {
	Observe(context.Context) (State, error)
	Apply(context.Context, Op) error
	Close() error
}

// events says that something changed, without saying what: whoever hears it
// reads everything again. C is closed when no more will come.
type events interface {
	C() <-chan struct{}
	Close() error
}

// Reconciler keeps the network of one namespace, that of the thread which
// calls Converge and Run, as a Config wants it. All methods may be called at
// the same time; convergences take turns.
type Reconciler struct {
	cfg   *Config
	log   *slog.Logger
	opt   Options
	open  func() (network, error)
	watch func() (events, error)

	turn        sync.Mutex // held by a convergence, guards the maps
	failures    map[failedAddress]*failedCheck
	ipv6        map[string]*dadRetry // of links that were to get IPv6, by name
	lastFailure error                // of the last passes, nil when they converged; under turn
	said        map[string]string    // per link, the last line logged
	findings    settling             // under turn
	refused     map[string]*refusal  // of kernel settings, by key, under turn
	ra          *advertisements      // has its own lock
	hosts       hosts                // has its own lock
	solicited   map[int]bool         // links whose routers were asked since the watch began, under turn
	leases      *keeper              // under turn, but for its channel

	mu      sync.Mutex
	status  Status
	changed chan struct{} // closed when status changes
}

// New makes a reconciler; nothing is touched before Converge or Run.
func New(cfg *Config, log *slog.Logger, opt Options) *Reconciler {
	ra := &advertisements{}
	return &Reconciler{
		ra:  ra,
		cfg: cfg.withSysctls(opt.Sysctls), log: log, opt: opt,
		open:      func() (network, error) { return openNetwork(opt) },
		leases:    newKeeper(cfg, log, kernelLeases(), leaseStore{opt.Leases, bootID()}),
		watch:     func() (events, error) { return watchKernel(ra) },
		failures:  map[failedAddress]*failedCheck{},
		ipv6:      map[string]*dadRetry{},
		said:      map[string]string{},
		findings:  settling{since: map[string]time.Time{}},
		refused:   map[string]*refusal{},
		hosts:     hosts{changed: make(chan struct{}, 1)},
		solicited: map[int]bool{},
		changed:   make(chan struct{}),
	}
}

// Converge makes the network what the document says: it observes, plans and
// applies until the plan is empty, then gives IPv6's duplicate address
// detection up to 5 s, and DHCP servers up to 30 s. What it cannot bring about, such as a NIC that is not
// there, is in the report and no error. The error is the operation that the
// kernel refused twice, with its errno.
func (r *Reconciler) Converge(ctx context.Context) (Report, error) {
	var report Report
	net, err := r.open()
	if err != nil {
		return report, err
	}
	defer net.Close()
	ev, err := r.watch()
	if err != nil {
		return report, err
	}
	defer ev.Close()

	defer r.useLeases()()
	waits, err := r.passes(ctx, net, &report)
	limit, pending := dadWait, wait.passing
	if r.cfg.wantsLeases() {
		limit, pending = leasePatience, wait.comes
	}
	patience := time.NewTimer(limit)
	defer patience.Stop()
	for err == nil && slices.ContainsFunc(waits, pending) {
		if !r.next(ctx, ev, patience.C, time.Now()) {
			break
		}
		waits, err = r.passes(ctx, net, &report)
	}
	r.sayOps(report.Ops)
	r.say()
	return report, err
}

// next waits for an event since the network was looked at, and for those that
// belong to it. It is false when patience or ctx ended first.
func (r *Reconciler) next(ctx context.Context, ev events, patience <-chan time.Time, looked time.Time) bool {
	select {
	case <-ev.C():
	case <-r.leases.state:
	case <-r.leases.c:
		return true
	case <-patience:
		return false
	case <-ctx.Done():
		return false
	}
	return r.gathered(ctx, looked)
}

// gathered waits for the events that belong to one that just came, but not
// with a lease at hand. It is false when ctx ended first.
func (r *Reconciler) gathered(ctx context.Context, looked time.Time) bool {
	select {
	case <-time.After(max(gather, settle-time.Since(looked))):
		return true
	case <-r.leases.c:
		return true
	case <-ctx.Done():
		return false
	}
}

// passes observes, plans and applies until nothing is left to do. After a refused
// operation its pass goes on with other links; the next one plans from what is
// there by then, so a race heals. An operation that is refused again is the error.
func (r *Reconciler) passes(ctx context.Context, net network, report *Report) ([]wait, error) {
	r.turn.Lock()
	defer r.turn.Unlock()
	var refused string
	refusal := r.lastFailure
	defer func() { r.lastFailure = refusal }()
	for writing := 0; writing < maxPasses; {
		report.Passes++
		have, err := net.Observe(ctx)
		if err != nil {
			refusal = err
			r.publishFailure(err)
			return nil, err
		}
		r.holdFailed(&have, time.Now())
		r.holdIPv6(&have, time.Now())
		r.holdRefused(&have, time.Now())
		now := time.Now()
		r.leases.follow(have)
		want := r.cfg.withLeases(r.leases.tenants, r.leases.env.now()).
			withAdvertised(r.ra.known(now, have), have).withHosts(r.hosts.wanted())
		p := planned(want, have)
		ops, waits := p.ops, p.waits
		if len(ops) == 0 {
			refusal = nil // it healed
		}
		status := p.status
		if len(ops) > 0 {
			status = func(waits []wait) Status { return statusOf(want, have, waits) }
		}
		r.publish(status(waits), have, len(ops) == 0, refusal)
		report.Waits = plainWaits(waits)
		if len(ops) == 0 && r.askHolders(ctx, net, have) {
			continue // to say whose it is; each is asked once for a try
		}
		if len(ops) == 0 {
			r.solicit(net, want, have)
			return waits, nil
		}
		writing++
		failed, err := r.applyAll(ctx, net, ops, report)
		if err != nil && failed == refused {
			r.publish(status(waits), have, false, err)
			return waits, err
		}
		refused, refusal = failed, err
	}
	if refusal == nil {
		refusal = errors.New("something else keeps changing it")
	}
	refusal = fmt.Errorf("converge in %d passes: %w", maxPasses, refusal)
	r.publishFailure(refusal)
	return nil, refusal
}
