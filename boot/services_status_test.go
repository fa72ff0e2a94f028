package boot

import (
	"testing"

	"reveille/boot/service"
	"reveille/boot/supervise"
)

// An instance is gone when its server is dead, and not before: who hears it may
// start it elsewhere.
func TestInstancesAreGoneWithTheirServer(t *testing.T) {
	for _, c := range []struct {
		state   supervise.State
		verdict service.Verdict
		want    string
	}{
		{supervise.Running, service.Alive, "running"},
		{supervise.Running, service.Unknown, "running"},
		{supervise.Stopping, "", "unknown"}, // it may take its time
		{supervise.Stopping, service.Gone, "unknown"},
		{supervise.Cleaning, service.Gone, "gone"},
		{supervise.Failed, service.Gone, "gone"},
		{supervise.Stopped, "", "gone"},
	} {
		row := serviceRow(supervise.Status{State: c.state, Verdict: c.verdict, Instances: []service.Instance{{ID: "a", State: "running"}}}, 0)
		if got := row.GetInstances()[0].GetState(); got != c.want {
			t.Errorf("%s, %q: %s, want %s", c.state, c.verdict, got, c.want)
		}
	}
}
