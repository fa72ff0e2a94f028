package boot

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"google.golang.org/protobuf/proto"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/proc"
	"reveille/boot/service"
	"reveille/boot/state"
	"reveille/netcfg"
)

// desired is what services this node is to run: its node.yaml's, and the
// cluster's, which outlive an agent with init and a boot in the sealed config.
type desired struct {
	mu      sync.Mutex
	now     service.Desired
	known   bool   // now is what is in force
	given   uint64 // the generation that the cluster gave last, in force or not
	problem string // why that one is not in force
	changed chan struct{}
}

// Get is what to run, whether that is known, and a channel that is closed when
// it changes.
func (d *desired) Get() (now service.Desired, known bool, changed <-chan struct{}) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.changed == nil {
		d.changed = make(chan struct{})
	}
	return d.now, d.known, d.changed
}

// Given is the generation that the cluster gave last.
func (d *desired) Given() uint64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.given
}

// set has next run, unless there is an error: then what runs goes on.
func (d *desired) set(next service.Desired, given uint64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.given, d.problem = given, ""
	if err != nil {
		d.problem = fmt.Sprintf("generation %d is not in force: %v", given, err)
		return
	}
	d.now, d.known = next, true
	if d.changed != nil {
		close(d.changed)
		d.changed = nil
	}
}

func (d *desired) tell(s *clusterv1.NodeStatus) {
	d.mu.Lock()
	defer d.mu.Unlock()
	s.ServicesGeneration, s.ServicesProblem = d.now.Generation, d.problem
}

// withOwn is node.yaml's services beside the cluster's.
func withOwn(own service.Definitions, d *clusterv1.DesiredServices) (service.Desired, error) {
	cluster, err := definitions(own, d)
	if err != nil {
		return service.Desired{}, err
	}
	var wishes []service.Wish
	for _, w := range d.GetWishes() {
		wishes = append(wishes, service.Wish{Service: w.GetService(), Stopped: w.GetStopped(), Start: w.GetStart()})
	}
	return service.Merge(own, cluster, wishes, d.GetGeneration())
}

func definitions(own service.Definitions, d *clusterv1.DesiredServices) (service.Definitions, error) {
	if len(d.GetDocument()) == 0 {
		return service.Definitions{}, nil
	}
	var names []string
	for _, s := range own.Services {
		names = append(names, s.Name)
	}
	defined, err := service.Parse("services", d.GetDocument(), d.GetGeneration(), service.Elsewhere{Services: names})
	var problems netcfg.Problems
	if errors.As(err, &problems) && len(problems) > 1 {
		err = fmt.Errorf("%s (and %d more problems)", problems[0], len(problems)-1)
	}
	return defined, err
}

// recallServices takes node.yaml's services, and those of the cluster that an
// agent before this one had in force or, if none had, that an earlier boot
// stored. What cannot be read is said, and asked for again when the node has
// joined. Until then a boot that has used none of the cluster's does without;
// in any other they may run, and nobody knows that they are not wanted.
func (n *Node) recallServices(ctx context.Context, stored state.Secret) error {
	left, err := n.init.Kept(ctx, proc.KeptServices)
	if err != nil {
		return err
	}
	log := n.logger("services")
	if len(left) > 0 {
		next, err := unpackServices(n.params.Services, left)
		if err != nil {
			log.Error("use the services that are in force: " + err.Error() + "; what runs goes on, and nothing is started or stopped until the cluster tells")
			return nil
		}
		n.desired.set(next, next.Generation, nil)
		return nil
	}
	next, err := unpackServices(n.params.Services, stored)
	if err != nil {
		log.Warn("use stored services: " + err.Error() + "; going on with those of node.yaml until the cluster tells")
		next = service.Desired{Definitions: n.params.Services}
	}
	n.desired.set(next, next.Generation, nil)
	return nil
}

// keepServices takes over what the cluster wants run from now on. It is left
// with init first, so that an agent after this one goes on with the same even
// if it cannot be stored, and it is stored, so that a boot without a controller
// starts the same.
func (n *Node) keepServices(ctx context.Context, d *clusterv1.DesiredServices) {
	log := n.logger("services")
	next, err := withOwn(n.params.Services, d)
	var packed state.Secret
	if err == nil {
		packed, err = packServices(d)
	}
	if err != nil {
		log.Warn(fmt.Sprintf("generation %d of the cluster's services: %v; those of generation %d go on", d.GetGeneration(), err, n.desiredGeneration()))
		n.desired.set(next, d.GetGeneration(), err)
		return
	}
	if err := n.init.Keep(ctx, proc.KeptServices, packed); err != nil {
		log.Warn("leave services with init: " + err.Error() + "; asked for again with the next heartbeat")
		return
	}
	if err := n.change(ctx, func(c *state.Config) { c.Services = packed }); err != nil {
		log.Warn("store services: " + err.Error() + ", going on: they are used, and asked for again after the next boot")
	}
	n.desired.set(next, d.GetGeneration(), nil)
	log.Info(fmt.Sprintf("generation %d of the cluster's services: %d of the cluster, %d of node.yaml", d.GetGeneration(),
		len(next.Services)-len(n.params.Services.Services), len(n.params.Services.Services)))
}

func (n *Node) desiredGeneration() uint64 {
	now, _, _ := n.desired.Get()
	return now.Generation
}

func packServices(d *clusterv1.DesiredServices) (state.Secret, error) {
	plain, err := proto.Marshal(d)
	if err != nil {
		return nil, err
	}
	return service.Pack(plain)
}

// unpackServices is node.yaml's services beside what packServices packed;
// nothing packed is none of the cluster's.
func unpackServices(own service.Definitions, packed state.Secret) (service.Desired, error) {
	d := new(clusterv1.DesiredServices)
	if len(packed) > 0 {
		plain, err := service.Unpack(packed)
		if err != nil {
			return service.Desired{}, err
		}
		if err := proto.Unmarshal(plain, d); err != nil {
			return service.Desired{}, err
		}
	}
	return withOwn(own, d)
}
