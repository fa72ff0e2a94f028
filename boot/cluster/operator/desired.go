package operator

import (
	"fmt"
	"io"
	"strings"

	"reveille/boot/cluster/clusterv1"
	"reveille/netcfg"
)

// Applied is what `service apply` did.
type Applied struct {
	Node       string   `json:"node" yaml:"node"`
	Generation uint64   `json:"generation" yaml:"generation"`
	Added      []string `json:"added" yaml:"added"`
	Changed    []string `json:"changed" yaml:"changed"`
	Removed    []string `json:"removed" yaml:"removed"`
	Told       bool     `json:"told" yaml:"told"` // the node knows already
}

// AppliedOf is the view of a controller's answer without problems.
func AppliedOf(node string, r *clusterv1.ApplyServicesResponse) Applied {
	list := func(names []string) []string { return append([]string{}, names...) }
	return Applied{node, r.GetGeneration(), list(r.GetAdded()), list(r.GetChanged()), list(r.GetRemoved()), r.GetTold()}
}

// ProblemsOf is nil, or what was wrong with the document.
func ProblemsOf(r *clusterv1.ApplyServicesResponse) error {
	var ps netcfg.Problems
	for _, p := range r.GetProblems() {
		kind := netcfg.Invalid
		if p.GetUnsupported() {
			kind = netcfg.Unsupported
		}
		ps = append(ps, netcfg.Problem{File: p.GetFile(), Line: int(p.GetLine()), Column: int(p.GetColumn()), Key: p.GetKey(), Text: p.GetText(), Kind: kind})
	}
	if ps == nil {
		return nil
	}
	return ps
}

// WriteTable is the text of `service apply`.
func (a Applied) WriteTable(w io.Writer) error {
	text := fmt.Sprintf("node %s: generation %d", a.Node, a.Generation)
	for _, c := range []struct {
		word  string
		names []string
	}{{"added", a.Added}, {"changed", a.Changed}, {"removed", a.Removed}} {
		if len(c.names) > 0 {
			text += fmt.Sprintf("; %s %s", c.word, few(c.names, 10))
		}
	}
	if len(a.Added)+len(a.Changed)+len(a.Removed) == 0 {
		text += "; no service changed"
	}
	_, err := fmt.Fprintln(w, text+whenTold(a.Told))
	return err
}

func whenTold(told bool) string {
	if told {
		return ""
	}
	return "; the node does not answer now, its next heartbeat fetches it"
}

// Ordered is what `service start`, `stop` and `remove` did.
type Ordered struct {
	Node       string `json:"node" yaml:"node"`
	Service    string `json:"service" yaml:"service"`
	Order      string `json:"order" yaml:"order"` // start, stop, remove
	Generation uint64 `json:"generation" yaml:"generation"`
	Told       bool   `json:"told" yaml:"told"` // the node knows already
}

// OrderedOf is the view of a controller's answer.
func OrderedOf(node, service, order string, r *clusterv1.OrderServiceResponse) Ordered {
	return Ordered{node, service, order, r.GetGeneration(), r.GetTold()}
}

// WriteTable is the text of an order.
func (o Ordered) WriteTable(w io.Writer) error {
	_, err := fmt.Fprintf(w, "node %s: %s %s, generation %d%s\n", o.Node, o.Order, o.Service, o.Generation, whenTold(o.Told))
	return err
}

// Desired is what a node is to run and what it runs.
type Desired struct {
	Node       string           `json:"node" yaml:"node"`
	NodeState  string           `json:"nodeState" yaml:"nodeState"`
	Generation uint64           `json:"generation" yaml:"generation"` // desired
	InForce    uint64           `json:"inForce" yaml:"inForce"`       // as the node last said
	Problem    string           `json:"problem" yaml:"problem"`       // why they differ
	Services   []DesiredService `json:"services" yaml:"services"`     // by name
}

// DesiredService is one service of it. A service that the node has not said
// anything of is in state "unknown".
type DesiredService struct {
	Defined string `json:"defined" yaml:"defined"` // by whom: cluster, node
	Wanted  string `json:"wanted" yaml:"wanted"`   // running, stopped
	Service `yaml:",inline"`
}

// DesiredOf is the view of a controller's answer.
func DesiredOf(node string, r *clusterv1.ListServicesResponse) Desired {
	d := Desired{Node: node, NodeState: enum(r.GetNodeState(), "NODE_STATE_"), Generation: r.GetGeneration(),
		InForce: r.GetInForce(), Problem: r.GetProblem(), Services: []DesiredService{}}
	for _, v := range r.GetServices() {
		status := v.GetStatus()
		if status == nil {
			status = &clusterv1.ServiceStatus{Name: v.GetName(), State: serviceUnknown, Reason: "the node has not told", Enabled: !v.GetStopped()}
		}
		s := DesiredService{"node", "running", servicesOf(&clusterv1.NodeStatus{Services: []*clusterv1.ServiceStatus{status}})[0]}
		if v.GetDefined() {
			s.Defined = "cluster"
		}
		if v.GetStopped() {
			s.Wanted = "stopped"
		}
		d.Services = append(d.Services, s)
	}
	return d
}

// WriteTable is the table of `service list`.
func (d Desired) WriteTable(w io.Writer) error {
	if d.Generation != d.InForce {
		text := fmt.Sprintf("node %s (%s) runs generation %d of the cluster's services, %d is desired", d.Node, d.NodeState, d.InForce, d.Generation)
		if d.Problem != "" {
			text += ": " + d.Problem
		}
		if _, err := fmt.Fprintln(w, text); err != nil {
			return err
		}
	}
	if len(d.Services) == 0 {
		_, err := fmt.Fprintf(w, "node %s has no services: reveille service apply %s FILE gives it some\n", d.Node, d.Node)
		return err
	}
	rows := []string{"NAME\tDEFINED BY\tWANTED\tSTATE\tREADY\tVERDICT\tINCARNATION\tREASON"}
	for _, s := range d.Services {
		rows = append(rows, strings.Join([]string{s.Name, s.Defined, s.Wanted, s.State, yesNo(s.Ready), orDash(s.Verdict),
			fmt.Sprint(s.Incarnation), orDash(s.Reason)}, "\t"))
	}
	return columns(w, rows...)
}
