package netcfg

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"reveille/internal/synctest"
)

// muteLink is a fake kernel on which another machine has an address, and which
// cannot ask at first: there is no address to ask from.
type muteLink struct {
	*fake
	mute  bool
	asked int
}

func (m *muteLink) solicitRouters(int) error { return nil }

func (m *muteLink) whoHas(context.Context, LinkState, netip.Addr) (string, error) {
	if m.mute {
		return "", unix.EADDRNOTAVAIL
	}
	m.asked++
	return "02:00:00:00:00:99", nil
}

// fail is the kernel's failed check of all addresses that we added, of which it
// deletes those that end (addrconf_dad_stop).
func (f *fake) fail() {
	f.state.Addresses = slices.DeleteFunc(f.state.Addresses, func(a AddressState) bool {
		return a.Proto == ownProto && a.Prefix.Addr().Is6() && a.Dynamic
	})
	for i := range f.state.Addresses {
		if a := &f.state.Addresses[i]; a.Proto == ownProto && a.Prefix.Addr().Is6() {
			a.Tentative, a.DADFailed = true, true
		}
	}
}

// A failed address that is checked for long, or is gone, keeps nobody awake.
func TestFailedAddressDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFake(t).(*fake)
		r := New(compileWish(t, `ethernets: {eth0: {addresses: ["fd00::1/64"]}}`), quiet(), Options{})
		plug := func() {
			if err := f.AddNIC("eth0", "02:00:00:00:00:00"); err != nil {
				t.Fatal(err)
			}
		}
		look := func(want time.Duration) {
			t.Helper()
			if _, err := r.passes(t.Context(), f, &Report{}); err != nil {
				t.Fatal(err)
			}
			if got := r.nextLook(time.Now()); got != want {
				t.Errorf("next look in %s, want %s", got, want)
			}
		}
		plug()
		look(lookAgain)
		f.fail()
		look(dadRetryFirst) // is tried again at once
		f.fail()
		look(dadRetryFirst)

		f.unplugged = true // in the next try it stays unchecked
		time.Sleep(dadRetryFirst + time.Second)
		look(2 * dadRetryFirst)
		time.Sleep(2*dadRetryFirst + time.Second)
		look(lookAgain)

		f.state = State{} // the NIC is another one
		plug()
		look(lookAgain)
		if len(r.failures) > 0 {
			t.Errorf("remembers %v", r.failures)
		}
	})
}

// However many addresses others have, asking for them all is no trouble of ours.
func TestManyHoldersAreAsked(t *testing.T) {
	m := &muteLink{fake: newFake(t).(*fake)}
	if err := m.AddNIC("eth0", "02:00:00:00:00:00"); err != nil {
		t.Fatal(err)
	}
	const many = askAtOnce * maxPasses * 2
	var list []string
	for i := range many {
		list = append(list, fmt.Sprintf("'fd00::%x/64'", i+1))
	}
	r := New(compileWish(t, `ethernets: {eth0: {addresses: [`+strings.Join(list, ", ")+`]}}`), quiet(), Options{})
	for range 3 { // added, tried again at once, held
		if _, err := r.passes(t.Context(), m, &Report{}); err != nil {
			t.Fatal(err)
		}
		m.fail()
	}
	if _, err := r.passes(t.Context(), m, &Report{}); err != nil || m.asked != many {
		t.Errorf("%v, asked %d times", err, m.asked)
	}
	for _, a := range r.Status().Links[0].Addresses {
		if a.Wanted && a.Holder == "" {
			t.Errorf("nobody has %s", a.Prefix)
		}
	}
}

// Who has our address is asked as soon as the link can ask, and then once for
// each try.
func TestHolderIsAskedWhenThatIsPossible(t *testing.T) {
	m := &muteLink{fake: newFake(t).(*fake), mute: true}
	if err := m.AddNIC("eth0", "02:00:00:00:00:00"); err != nil {
		t.Fatal(err)
	}
	r := New(compileWish(t, `ethernets: {eth0: {addresses: ["fd00::1/64"]}}`), quiet(), Options{})
	reason := func() string {
		t.Helper()
		for i := range m.state.Addresses {
			if a := &m.state.Addresses[i]; a.Prefix == netip.MustParsePrefix("fd00::1/64") {
				a.Tentative, a.DADFailed = true, true
			}
		}
		var report Report
		if _, err := r.passes(t.Context(), m, &report); err != nil {
			t.Fatal(err)
		}
		for _, w := range report.Waits {
			if strings.Contains(w.Reason, "duplicate") {
				return w.Reason
			}
		}
		return ""
	}
	reason() // is added
	reason() // is tried again at once
	const unknown = "another machine has fd00::1 (duplicate address detected)"
	if got := reason(); got != unknown {
		t.Errorf("mute: %q", got)
	}
	m.mute = false
	for range 2 {
		if got := reason(); got != unknown+", its MAC is 02:00:00:00:00:99" || m.asked != 1 {
			t.Errorf("%q, asked %d times", got, m.asked)
		}
	}
}
