package boot

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"reveille/boot/monitor"
	"reveille/boot/proc"
	"reveille/boot/service"
	"reveille/boot/supervise"
)

// services ends the phase in which the TPM opens the config, so that no
// payload can read it, and then takes over what an agent before this one had
// started: services are children of init and outlive an agent.
func (n *Node) services(ctx context.Context) error {
	if err := n.opened.vault.EndPhase(ctx); err != nil {
		return sealedFault(err)
	}
	if err := proc.RaiseLoopback(); err != nil {
		n.logger("services").Warn(err.Error() + ", going on: services may miss it")
	}
	n.keep(ctx, "services", n.superviseServices)
	n.keep(ctx, "health", n.nameTrouble)
	return nil
}

// servicesDir has what an agent after this one must know of the services. It is
// a file system of its own, lest a service that fills /run keeps it from being
// written.
const servicesDir = "/run/reveille/services"

func mountServicesDir() error {
	if err := os.MkdirAll(servicesDir, 0o700); err != nil {
		return err
	}
	var at, above unix.Stat_t
	if err := errors.Join(unix.Stat(servicesDir, &at), unix.Stat(filepath.Dir(servicesDir), &above)); err != nil {
		return err
	}
	if at.Dev != above.Dev {
		return nil // by an agent before this one
	}
	if err := unix.Mount("services", servicesDir, "tmpfs", unix.MS_NODEV|unix.MS_NOEXEC|unix.MS_NOSUID, "mode=0700,size=64m"); err != nil {
		return fmt.Errorf("mount %s: %w", servicesDir, err)
	}
	return nil
}

// superviseServices keeps the services as they are desired, until ctx ends.
func (n *Node) superviseServices(ctx context.Context) error {
	ctx, end := context.WithCancel(ctx)
	defer end()
	if err := mountServicesDir(); err != nil {
		n.logger("services").Warn(err.Error() + ", going on: a service that fills /run keeps others from being started")
	}
	s := supervise.New(supervise.Config{
		Init: n.init, Boot: n.bootID, Now: uptime, Dir: servicesDir, Log: n.logger("services"),
		Cgroups: supervise.Cgroups{Root: "/sys/fs/cgroup"},
		Prepare: n.prepareService, Release: n.releaseService, Watch: n.watchService,
		Bundle: n.bundleService, Changed: n.servicesChanged,
	})
	n.supervisor.Store(s)
	go n.desire(ctx, s)
	return s.Run(ctx)
}

// desire passes on what is desired, once that is known and whenever it changes:
// until then nothing is stopped for want of a wish.
func (n *Node) desire(ctx context.Context, s *supervise.Supervisor) {
	for {
		desired, known, changed := n.desired.Get()
		var wishes []supervise.Wish
		for _, d := range desired.Services {
			w := desired.Wish(d.Name)
			wishes = append(wishes, supervise.Wish{Service: d, Stopped: w.Stopped, Starts: w.Start})
		}
		if known && s.Desire(ctx, wishes) != nil {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
	}
}

// servicesChanged has the cluster hear of it soon. It waits for nothing.
func (n *Node) servicesChanged() { n.track.Touch() }

// watchService has a monitor look at an incarnation.
func (n *Node) watchService(ctx context.Context, w supervise.Watched, tell func(service.Report)) error {
	n.endProbe(ctx, w)
	witness := monitor.NewProcesses(w.PID, w.Cgroup)
	defer witness.Close()
	return monitor.Watch(ctx, monitor.Target{
		Service: w.Service, Ref: w.Ref, PID: w.PID, Age: uptime() - w.Started, Before: w.Before, Doubt: w.Doubt, Witness: witness,
		Exec: n.probe(w), Notices: n.notices(w.Ref),
	}, tell)
}

// troubleEvery is how often what is enabled and does not run is named on the
// console: half of what operators are promised.
const troubleEvery = 30 * time.Second

// nameTrouble names services that are enabled and do not run.
func (n *Node) nameTrouble(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(troubleEvery):
		}
		if text := n.serviceTrouble(); text != "" {
			n.logger("services").Warn(text)
		}
	}
}
