package netcfg

import (
	"context"
	"slices"
	"testing"
	"time"

	"reveille/internal/synctest"
)

// Another machine has eth0's link-local address, and accept_dad is 2: the kernel
// switches IPv6 off a second after it was switched on. That is undone later each
// time, and holds nothing else up.
func TestIPv6SwitchedOffAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t).(*fake)
		if err := f.AddNIC("eth0", "02:00:00:00:00:00"); err != nil {
			t.Fatal(err)
		}
		r := New(compileWish(t, `ethernets: {eth0: {addresses: [10.9.0.1/24, "fd00:9::1/64"], routes: [{to: "fd01::/48", via: "fd00:9::fe"}]}}`), quiet(), Options{})
		start := time.Now()
		var tries []time.Duration
		look := func() Report {
			var report Report
			if _, err := r.passes(bg, f, &report); err != nil {
				t.Fatal(err)
			}
			for _, op := range report.Ops {
				if op.Verb == OpSet && op.Settings[0] == (Setting{"disable_ipv6", "0"}) {
					tries = append(tries, time.Since(start).Round(time.Second))
				}
			}
			return report
		}
		conflict := func() {
			l := f.state.named("eth0")
			l.DisableIPv6 = true
			f.loseIPv6(l)
		}
		for time.Since(start) < 2*time.Minute {
			before := len(tries)
			report := look()
			want := "the kernel switched IPv6 off again, as it does with accept_dad=2 when another machine has the link-local address"
			if time.Since(start) > 0 && len(tries) == before && !slices.ContainsFunc(report.Waits, func(w Wait) bool { return w.Reason == want }) {
				t.Fatalf("waits %v", report.Waits)
			}
			conflict()
			if next := r.nextLook(time.Now()); len(tries) > 0 && time.Since(start)+next > (tries[len(tries)-1]+r.ipv6["eth0"].pause) {
				t.Errorf("the next look is in %s", next)
			}
			time.Sleep(time.Second) // of the bubble
		}
		if want := []time.Duration{1 * time.Second, 11 * time.Second, 31 * time.Second, 71 * time.Second}; !slices.Equal(tries, want) {
			t.Errorf("tried after %v, want %v", tries, want)
		}
		if got := r.Status().Addresses; len(got) != 1 {
			t.Errorf("usable %v", got)
		}

		// The other machine goes; after the next try all is well, and what
		// happens then is a fault of its own.
		time.Sleep(5 * time.Minute)
		look()
		f.wait()
		if report := look(); len(report.Waits) > 0 || len(r.Status().Addresses) != 2 {
			t.Errorf("waits %v, usable %v", report.Waits, r.Status().Addresses)
		}
		tries = nil
		conflict()
		if look(); len(tries) != 1 {
			t.Errorf("tried %v", tries)
		}
	})
}

// A kernel that makes no link-local address whatever is written is asked again
// only after a pause.
func TestNoLinkLocalAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t).(*fake)
		if err := f.AddNIC("eth0", "02:00:00:00:00:00"); err != nil {
			t.Fatal(err)
		}
		deaf := deaf{f}
		r := New(compileWish(t, "ethernets: {eth0: {}}"), quiet(), Options{})
		for range 3 {
			var report Report
			waits, err := r.passes(bg, deaf, &report)
			if err != nil || len(waits) != 1 || waits[0].Reason != "the kernel makes no link-local address" {
				t.Fatalf("%v, %v", waits, err)
			}
			time.Sleep(time.Second)
		}
	})
}

// deaf is a fake kernel that makes no link-local address.
type deaf struct{ *fake }

func (d deaf) Apply(ctx context.Context, op Op) error {
	err := d.fake.Apply(ctx, op)
	d.loseIPv6(d.state.named("eth0"))
	return err
}
