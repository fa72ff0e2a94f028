package boot

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/service"
	"reveille/boot/supervise"
)

// serviceStatus is how the services are, nothing while nobody supervises yet.
func (n *Node) serviceStatus() []supervise.Status {
	if s := n.supervisor.Load(); s != nil {
		return s.Status()
	}
	return nil
}

// maxServices and maxInstances bound what a heartbeat lists; it counts the rest.
const (
	maxServices  = 64
	maxInstances = 32
)

// tellServices adds the services to a heartbeat, those with trouble first, so
// that none of them is left out for want of room.
func tellServices(all []supervise.Status, now time.Duration, s *clusterv1.NodeStatus) {
	for _, healthy := range []bool{false, true} {
		for _, st := range all {
			if st.Healthy() != healthy {
				continue
			}
			if len(s.Services) == maxServices {
				s.MoreServices++
				continue
			}
			s.Services = append(s.Services, serviceRow(st, now))
		}
	}
}

func serviceRow(st supervise.Status, now time.Duration) *clusterv1.ServiceStatus {
	row := &clusterv1.ServiceStatus{
		Name: st.Service, State: string(st.State), Enabled: st.Enabled, Ready: st.Ready, Verdict: string(st.Verdict),
		Incarnation: st.Incarnation, Generation: st.Generation, Since: durationpb.New(st.Since), Reason: st.Reason, Needs: st.Needs,
	}
	if st.Next > now && (st.State == supervise.Backoff || st.State == supervise.Held) {
		row.NextTry = durationpb.New(st.Next - now)
	}
	for i, inst := range st.Instances {
		if i == maxInstances {
			row.MoreInstances = uint32(len(st.Instances) - i)
			break
		}
		row.Instances = append(row.Instances, &clusterv1.ServiceInstance{Id: inst.ID, Generation: inst.Generation, State: instanceState(st, inst)})
	}
	return row
}

// instanceState is what can be said of an instance. Whoever hears that it is
// gone may start it elsewhere, so that is said only of what was in the memory of
// a process that is dead.
func instanceState(st supervise.Status, i service.Instance) string {
	switch {
	case st.State == supervise.Running, st.State == supervise.Stopping && i.Ended():
		return i.State
	case st.State == supervise.Stopping: // nobody asks any more, and it may take long
		return string(service.Unknown)
	}
	return "gone"
}

// shownServices bounds how many services a line names.
const shownServices = 3

// serviceTrouble names what is enabled and does not run, or not well; empty for
// nothing.
func (n *Node) serviceTrouble() string { return trouble(n.serviceStatus()) }

func trouble(all []supervise.Status) string {
	var bad []string
	for _, st := range all {
		if st.Healthy() {
			continue
		}
		text := fmt.Sprintf("%s %s", st.Service, st.State)
		if st.Reason != "" {
			text += ": " + st.Reason
		}
		bad = append(bad, text)
	}
	if len(bad) == 0 {
		return ""
	}
	text := fmt.Sprintf("%d of %d services not well: %s", len(bad), len(all), strings.Join(bad[:min(len(bad), shownServices)], "; "))
	if more := len(bad) - shownServices; more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}
