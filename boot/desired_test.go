package boot

import (
	"errors"
	"strings"
	"testing"

	"reveille/boot/cluster/clusterv1"
	"reveille/boot/service"
)

func own(t *testing.T) service.Definitions {
	t.Helper()
	d, err := service.Parse("node.yaml", []byte("version: 1\nservices: {base: {command: [/base]}}\n"), 0, service.Elsewhere{})
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// The cluster's document may need what node.yaml defines, not define it again.
func TestDesiredOfTwoDocuments(t *testing.T) {
	for name, tc := range map[string]struct{ document, want string }{
		"nothing":      {"", ""},
		"needs":        {"version: 1\nservices: {web: {command: [/web], needs: [base]}}\n", ""},
		"needs nobody": {"version: 1\nservices: {web: {command: [/web], needs: [bose]}}\n", `did you mean "base"?`},
		"twice":        {"version: 1\nservices: {base: {command: [/web]}}\n", "is defined by the node's own node.yaml"},
		"newer":        {"version: 2\nservices: {web: {cmd: [/web]}}\n", "(and 2 more problems)"},
	} {
		d, err := withOwn(own(t), &clusterv1.DesiredServices{Generation: 3, Document: []byte(tc.document),
			Wishes: []*clusterv1.ServiceWish{{Service: "base", Stopped: true}}})
		if tc.want == "" {
			if err != nil || len(d.Services) == 0 || !d.Wish("base").Stopped || d.Wish("web").Stopped || d.Generation != 3 {
				t.Errorf("%s: %+v, %v", name, d, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: got %v, want %s", name, err, tc.want)
		}
	}
}

// A document that is not right leaves what runs as it is, and is told.
func TestDesiredStaysInForce(t *testing.T) {
	var d desired
	_, _, changed := d.Get()
	d.set(service.Desired{Generation: 1}, 1, nil)
	<-changed
	_, _, changed = d.Get()
	d.set(service.Desired{}, 2, errors.New("no such key"))
	select {
	case <-changed:
		t.Error("a change that is none")
	default:
	}
	s := new(clusterv1.NodeStatus)
	d.tell(s)
	if d.Given() != 2 || s.GetServicesGeneration() != 1 || s.GetServicesProblem() != "generation 2 is not in force: no such key" {
		t.Errorf("given %d, told %v", d.Given(), s)
	}
}
