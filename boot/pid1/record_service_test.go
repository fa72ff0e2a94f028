package pid1

import (
	"fmt"
	"strings"
	"testing"

	"reveille/boot/crash"
	"reveille/boot/proc"
)

// TestServicesPushOutNoCrash: however many services fail, the crash of an agent
// stays, in memory and on the disk; and the agent can leave no other record.
func TestServicesPushOutNoCrash(t *testing.T) {
	m := newMachine(t)
	r, _ := m.boot()
	agent := r.die(1)
	newest := ""
	for n := range 3 * maxServices {
		raw := crash.Record{Kind: crash.Service, BootID: "boot1", Incarnation: uint64(n + 1), Reason: fmt.Sprintf("svc#%d: exit status 1", n+1)}.Encode()
		newest = crash.ID(raw)
		if _, err := r.take(t.Context(), proc.RawRecord{Data: raw}); err != nil {
			t.Fatal(err)
		}
		r.work()
	}
	got := strings.Fields(r.ids(t))
	if len(got) != 1+maxServices || got[0] != agent || got[len(got)-1] != newest {
		t.Errorf("%d records are kept, first %s, want %d and %s first", len(got), got[0], 1+maxServices, agent)
	}
	if _, err := r.take(t.Context(), proc.RawRecord{Data: crash.Record{Kind: crash.Agent, Reason: "none"}.Encode()}); err == nil {
		t.Error("an agent left the record of a crash of its own")
	}
	r, _ = m.boot()
	r.work()
	if got := r.ids(t); !strings.Contains(got, agent) {
		t.Errorf("the next boot has %s, not %s", got, agent)
	}
}
