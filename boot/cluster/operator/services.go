package operator

import (
	"fmt"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"reveille/boot/cluster/clusterv1"
)

// Service is one service of a node.
type Service struct {
	Name  string `json:"name" yaml:"name"`
	State string `json:"state" yaml:"state"` // stopped, waiting, starting, running, backoff, held, stopping, cleaning, done, failed; unknown
	// Healthy: it does what it is meant to do, as far as its monitor can see.
	Healthy        bool       `json:"healthy" yaml:"healthy"`
	Enabled        bool       `json:"enabled" yaml:"enabled"` // meant to run
	Ready          bool       `json:"ready" yaml:"ready"`
	Verdict        string     `json:"verdict" yaml:"verdict"` // alive, gone, unknown; empty while nobody looks
	Incarnation    uint64     `json:"incarnation" yaml:"incarnation"`
	Generation     uint64     `json:"generation" yaml:"generation"`     // of its document; 0: node.yaml
	SinceSeconds   float64    `json:"sinceSeconds" yaml:"sinceSeconds"` // uptime of the node at the last change of state
	Reason         string     `json:"reason" yaml:"reason"`
	Instances      []Instance `json:"instances" yaml:"instances"`
	MoreInstances  uint32     `json:"moreInstances" yaml:"moreInstances"`   // that the node did not list
	NextTrySeconds *float64   `json:"nextTrySeconds" yaml:"nextTrySeconds"` // from the node's last word; null: none is planned
	Needs          []string   `json:"needs" yaml:"needs"`                   // services that it waits for
}

// Instance is one thing that a service keeps in its memory.
type Instance struct {
	ID         string `json:"id" yaml:"id"`
	Generation uint64 `json:"generation" yaml:"generation"`
	State      string `json:"state" yaml:"state"` // the service's own word, "unknown" while it stops, or "gone"
}

func servicesOf(st *clusterv1.NodeStatus) []Service {
	out := []Service{}
	for _, s := range st.GetServices() {
		v := Service{
			Name: s.GetName(), State: s.GetState(), Healthy: healthy(s), Enabled: s.GetEnabled(), Ready: s.GetReady(), Verdict: s.GetVerdict(),
			Incarnation: s.GetIncarnation(), Generation: s.GetGeneration(), SinceSeconds: s.GetSince().AsDuration().Seconds(),
			Reason: s.GetReason(), Instances: []Instance{}, MoreInstances: s.GetMoreInstances(),
			NextTrySeconds: seconds(s.GetNextTry()), Needs: append([]string{}, s.GetNeeds()...),
		}
		for _, i := range s.GetInstances() {
			v.Instances = append(v.Instances, Instance{i.GetId(), i.GetGeneration(), i.GetState()})
		}
		out = append(out, v)
	}
	return out
}

// healthy: one that is meant to run is ready and nobody doubts it, or has done
// its work; one that is not meant to is at rest. What is not known is not healthy.
func healthy(s *clusterv1.ServiceStatus) bool {
	if !s.GetEnabled() {
		return s.GetState() == "stopped"
	}
	return s.GetState() == "done" || s.GetState() == "running" && s.GetReady() && s.GetVerdict() != "unknown" && s.GetVerdict() != "gone"
}

func seconds(d *durationpb.Duration) *float64 {
	if d == nil {
		return nil
	}
	s := d.AsDuration().Seconds()
	return &s
}

// services names only those with trouble: "3 ok", or "etcd failed, vm unknown".
func services(n Node) string {
	var trouble []string
	for _, s := range n.Services {
		if !s.Healthy {
			trouble = append(trouble, s.Name+" "+s.word())
		}
	}
	if len(trouble) > 0 {
		return few(trouble, 2)
	}
	if len(n.Services) == 0 {
		return "-"
	}
	return fmt.Sprintf("%d ok", uint32(len(n.Services))+n.MoreServices)
}

// word is what is wrong with a service in one word.
func (s Service) word() string {
	switch {
	case s.State != "running":
		return s.State
	case !s.Enabled:
		return "still runs"
	case !s.Ready:
		return "not ready"
	}
	return s.Verdict
}

// serviceRows is the services of `node show`, one a row, and below it what it
// serves and what is wrong.
func serviceRows(n Node) []string {
	var rows []string
	for _, s := range n.Services {
		rows = append(rows, "service "+s.Name+"\t"+s.line(n))
		for _, i := range s.Instances {
			rows = append(rows, fmt.Sprintf("\tinstance %s: %s, generation %d", i.ID, orDash(i.State), i.Generation))
		}
		if s.MoreInstances > 0 {
			rows = append(rows, "\t"+count(s.MoreInstances, "more instance"))
		}
		if s.Reason != "" {
			rows = append(rows, "\t"+s.Reason)
		}
	}
	if n.MoreServices > 0 {
		rows = append(rows, "\t"+count(n.MoreServices, "more service"))
	}
	return rows
}

// line is "running for 3m, ready, alive, incarnation 2".
func (s Service) line(n Node) string {
	text := s.State
	if s.State != serviceUnknown && n.UptimeSeconds >= s.SinceSeconds {
		text += " for " + age(time.Duration((n.UptimeSeconds-s.SinceSeconds)*float64(time.Second)))
	}
	parts := []string{text}
	if s.State == "running" && !s.Ready {
		parts = append(parts, "not ready")
	}
	if s.Verdict != "" && s.State == "running" {
		parts = append(parts, s.Verdict)
	}
	if s.Incarnation > 0 {
		parts = append(parts, fmt.Sprintf("incarnation %d", s.Incarnation))
	}
	if s.NextTrySeconds != nil {
		parts = append(parts, "next try in "+age(time.Duration(*s.NextTrySeconds*float64(time.Second))))
	}
	if len(s.Needs) > 0 {
		parts = append(parts, "waits for "+few(s.Needs, 3))
	}
	if !s.Enabled {
		parts = append(parts, "not enabled")
	}
	return strings.Join(parts, ", ")
}

// serviceUnknown is the state of a service on a node that does not report.
const serviceUnknown = "unknown"
