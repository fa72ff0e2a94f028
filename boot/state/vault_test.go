package state

import (
	"bytes"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"reveille/tpm"
	"reveille/tpm/tpmtest"
)

func memory() *disk { return &disk{durable: map[string][]byte{}, power: 1 << 30} }

func enrolling() Config {
	return Config{Phase: Enrolling, NodeName: "n1", Key: Secret("private key, PKCS #8")}
}

func enrolled(mode tpm.Mode) Config {
	c := enrolling()
	c.Phase, c.TPMMode = Enrolled, mode
	c.NodeID, c.ClusterID = "node-1", "cluster-1"
	c.Certificate, c.CA = []byte("certificate"), []byte("ca")
	c.Directory, c.DirectorySignature = []byte("directory"), []byte("signature")
	c.Services = Secret("services")
	c.ClusterTime = time.Date(2026, 11, 30, 19, 0, 0, 0, time.UTC)
	return c
}

func boot(s *tpmtest.SWTPM) *tpm.TPM {
	s.Extend(4, 0x44)
	s.Extend(7, 0x77)
	return s.Open()
}

func mustSave(t *testing.T, v *Vault, c Config) Info {
	t.Helper()
	info, err := v.Save(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func wantAbsent(t *testing.T, v *Vault) {
	t.Helper()
	if _, _, err := v.Load(t.Context()); tpm.OutcomeOf(err) != tpm.Absent {
		t.Fatalf("want absent, got %v", err)
	}
}

func wantConfig(t *testing.T, v *Vault, want Config, sealed bool) Info {
	t.Helper()
	got, info, err := v.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(got, want) || info.Sealed != sealed {
		t.Fatalf("got %+v sealed %t, want %+v sealed %t", got, info.Sealed, want, sealed)
	}
	return info
}

// TestLifeOfANode goes from the first boot over an agent's crash to the next.
func TestLifeOfANode(t *testing.T) {
	s, d := tpmtest.Start(t), memory()
	dev := boot(s)
	v := newVault(d, dev, nil, tpm.Preferred)
	wantAbsent(t, v)
	mustSave(t, v, enrolling())
	dev.Close()

	// The reply to the enrol request is lost with the power: same key again.
	s.Restart()
	dev = boot(s)
	v = newVault(d, dev, nil, tpm.Preferred)
	wantConfig(t, v, enrolling(), true)
	c := enrolled(tpm.Required)
	info := mustSave(t, v, c)
	if want := (Info{Generation: 2, Sealed: true, Mode: tpm.Required, Binding: "PCRs 4,7,11 (fragile)"}); !reflect.DeepEqual(info, want) {
		t.Errorf("got %+v, want %+v", info, want)
	}
	for range 2 { // a stage may run twice
		if err := v.EndPhase(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	wantConfig(t, v, c, true)
	kept, err := v.Keep()
	if err != nil {
		t.Fatal(err)
	}
	dev.Close()

	// The agent crashed. The TPM opens nothing more; what init kept does.
	dev = s.Open()
	v = newVault(d, dev, nil, tpm.Preferred)
	if _, _, err := v.Load(t.Context()); tpm.OutcomeOf(err) != tpm.PhaseOver {
		t.Fatalf("want PhaseOver, got %v", err)
	}
	if _, err := v.Save(t.Context(), c); err == nil {
		t.Fatal("saved without having loaded")
	}
	got, info, err := v.Resume(kept)
	if err != nil || !reflect.DeepEqual(got, c) || info.Generation != 2 {
		t.Fatalf("resumed %+v, %+v, %v", got, info, err)
	}
	c.Directory = []byte("newer directory")
	mustSave(t, v, c)
	dev.Close()

	s.Restart()
	dev = boot(s)
	info = wantConfig(t, newVault(d, dev, nil, tpm.Preferred), c, true)
	if info.Generation != 3 || len(info.Warnings) > 0 {
		t.Errorf("got %+v", info)
	}
}

func TestKeyIsNotOnTheDisk(t *testing.T) {
	d := memory()
	v := newVault(d, boot(tpmtest.Start(t)), nil, tpm.Required)
	wantAbsent(t, v)
	mustSave(t, v, enrolled(tpm.Required))
	for name, b := range d.durable {
		for _, form := range []string{"private key", "cHJpdmF0ZSBrZXk"} {
			if bytes.Contains(b, []byte(form)) {
				t.Errorf("%s shows the key as %q", name, form)
			}
		}
	}
}

func TestOutcomesReachTheCaller(t *testing.T) {
	s, d := tpmtest.Start(t), memory()
	dev := boot(s)
	v := newVault(d, dev, nil, tpm.Required)
	wantAbsent(t, v)
	mustSave(t, v, enrolled(tpm.Required))
	dev.Close()
	load := func(dev *tpm.TPM, why error) error {
		_, _, err := newVault(d, dev, why, tpm.Required).Load(t.Context())
		return err
	}
	for _, why := range []tpm.Outcome{tpm.Missing, tpm.Version12, tpm.Unresponsive, tpm.NoSHA256} {
		if err := load(nil, &tpm.Error{Outcome: why}); tpm.OutcomeOf(err) != why {
			t.Errorf("want %v, got %v", why, err)
		}
	}
	if err := load(boot(tpmtest.Start(t)), nil); tpm.OutcomeOf(err) != tpm.Foreign {
		t.Errorf("want Foreign, got %v", err)
	}
	s.Restart()
	s.Extend(12, 1)
	dev = boot(s)
	if err := load(dev, nil); err != nil {
		t.Errorf("PCR 12 was not bound: %v", err)
	}
	dev.Close()
	s.Extend(7, 1)
	dev = s.Open()
	if err := load(dev, nil); tpm.OutcomeOf(err) != tpm.WrongPCRs || !strings.Contains(err.Error(), "load config generation 1: unseal: PCRs differ from those sealed: PCR 7 (sealed ") {
		t.Errorf("want WrongPCRs naming PCR 7, got %v", err)
	}
	dev.Close()
	s.Clear()
	if err := load(s.Open(), nil); tpm.OutcomeOf(err) != tpm.Cleared {
		t.Errorf("want Cleared, got %v", err)
	}
}

// TestModes: who decides between sealed and plain, and that no failure does.
func TestModes(t *testing.T) {
	s := tpmtest.Start(t)
	dev := boot(s)
	missing := error(tpm.Missing)
	broken := error(&tpm.Error{Outcome: tpm.Unresponsive})
	for _, test := range []struct {
		mode tpm.Mode
		why  error // nil: there is a TPM
		save Config
		want string
	}{
		{tpm.Required, nil, enrolling(), "sealed"},
		{tpm.Required, missing, enrolling(), "no TPM found"},
		{tpm.Preferred, nil, enrolling(), "sealed"},
		{tpm.Preferred, missing, enrolling(), "plain"},
		{tpm.Preferred, tpm.Version12, enrolling(), "plain"},
		{tpm.Preferred, tpm.NoSHA256, enrolling(), "plain"},
		{tpm.Preferred, broken, enrolling(), "TPM does not answer"},
		{tpm.Disabled, nil, enrolling(), "plain"},
		{tpm.Disabled, missing, enrolling(), "plain"},
		// The cluster's word counts at enrolment.
		{tpm.Preferred, nil, enrolled(tpm.Required), "sealed"},
		{tpm.Preferred, nil, enrolled(tpm.Disabled), "plain"},
		{tpm.Disabled, nil, enrolled(tpm.Required), "sealed"},
		{tpm.Preferred, missing, enrolled(tpm.Required), "no TPM found"},
		{tpm.Preferred, missing, enrolled(tpm.Preferred), "TPM mode \"preferred\""},
	} {
		t.Run(fmt.Sprintf("%s %v %s%s", test.mode, test.why, test.save.Phase, test.save.TPMMode), func(t *testing.T) {
			use := dev
			if test.why != nil {
				use = nil
			}
			v := newVault(memory(), use, test.why, test.mode)
			wantAbsent(t, v)
			info, err := v.Save(t.Context(), test.save)
			got := map[bool]string{true: "sealed", false: "plain"}[info.Sealed]
			if err != nil {
				got = err.Error()
			}
			if !strings.Contains(got, test.want) {
				t.Errorf("got %s, want %s", got, test.want)
			}
		})
	}
}

func TestPlainFileOnlyWhereItBelongs(t *testing.T) {
	dev := boot(tpmtest.Start(t))
	broken := error(&tpm.Error{Outcome: tpm.Unresponsive})
	for _, test := range []struct {
		stored Config
		mode   tpm.Mode
		why    error
		want   tpm.Outcome // zero: opens
	}{
		{enrolled(tpm.Disabled), tpm.Disabled, nil, 0},
		{enrolled(tpm.Disabled), tpm.Disabled, tpm.Missing, 0},
		{enrolled(tpm.Disabled), tpm.Preferred, tpm.Missing, 0},
		{enrolled(tpm.Disabled), tpm.Preferred, nil, tpm.WrongMode},
		{enrolled(tpm.Disabled), tpm.Preferred, broken, tpm.Unresponsive},
		{enrolled(tpm.Disabled), tpm.Required, nil, tpm.WrongMode},
		{enrolled(tpm.Disabled), tpm.Required, tpm.Missing, tpm.WrongMode},
		{enrolling(), tpm.Preferred, nil, 0}, // a TPM found late, before enrolment
		{enrolling(), tpm.Required, nil, tpm.WrongMode},
	} {
		t.Run(fmt.Sprintf("%s%s %s %v", test.stored.Phase, test.stored.TPMMode, test.mode, test.why), func(t *testing.T) {
			d := memory()
			v := newVault(d, nil, tpm.Missing, tpm.Disabled)
			wantAbsent(t, v)
			mustSave(t, v, test.stored)
			use := dev
			if test.why != nil {
				use = nil
			}
			_, info, err := newVault(d, use, test.why, test.mode).Load(t.Context())
			if tpm.OutcomeOf(err) != test.want {
				t.Errorf("got %v, want %v", err, test.want)
			}
			if err == nil && info.Binding != "nothing (plain file)" {
				t.Errorf("binding %q", info.Binding)
			}
		})
	}
}

func TestNothingGoodIsLostBySave(t *testing.T) {
	dev := boot(tpmtest.Start(t))
	v := newVault(memory(), dev, nil, tpm.Required)
	if _, err := v.Save(t.Context(), enrolling()); err == nil {
		t.Error("saved before a load")
	}
	wantAbsent(t, v)
	mustSave(t, v, enrolled(tpm.Required))
	noDirectory := enrolled(tpm.Required)
	noDirectory.Directory = nil
	for name, c := range map[string]Config{
		"back to enrolling": enrolling(), "to plain": enrolled(tpm.Disabled), "empty directory": noDirectory, "no key": {Phase: Enrolled},
	} {
		if _, err := v.Save(t.Context(), c); err == nil {
			t.Errorf("%s: saved", name)
		}
	}
	wantConfig(t, v, enrolled(tpm.Required), true)
}

func TestTornCopyIsRepaired(t *testing.T) {
	s, d := tpmtest.Start(t), memory()
	dev := boot(s)
	v := newVault(d, dev, nil, tpm.Required)
	wantAbsent(t, v)
	mustSave(t, v, enrolled(tpm.Required))
	good := bytes.Clone(d.durable[slotNames[0]])
	for i := range slotNames {
		d.durable[slotNames[i]] = make([]byte, slotSize)
		info := wantConfig(t, newVault(d, dev, nil, tpm.Required), enrolled(tpm.Required), true)
		want := []string{
			fmt.Sprintf("copy config.%d: config corrupt: no envelope: using config.%d", i, 1-i),
			"both copies of the config hold generation 1 again",
		}
		if !reflect.DeepEqual(info.Warnings, want) {
			t.Errorf("got warnings %q, want %q", info.Warnings, want)
		}
		if !bytes.Equal(d.durable[slotNames[i]], good) {
			t.Errorf("%s was not repaired", slotNames[i])
		}
	}
	// On a read-only disk the node still boots.
	d.durable[slotNames[0]] = []byte{}
	ro := failing{disk: d, writeErr: errors.New("read-only file system")}
	info := wantConfig(t, newVault(ro, dev, nil, tpm.Required), enrolled(tpm.Required), true)
	if len(info.Warnings) != 2 || !strings.Contains(info.Warnings[1], "read-only file system") {
		t.Errorf("got warnings %q", info.Warnings)
	}
}

// TestFailedSaveUsesUpItsNumber: no two contents ever share a generation, not
// even across an agent's restart.
func TestFailedSaveUsesUpItsNumber(t *testing.T) {
	d := memory()
	v := newVault(d, nil, tpm.Missing, tpm.Disabled)
	wantAbsent(t, v)
	mustSave(t, v, enrolling())
	kept, err := v.Keep()
	if err != nil {
		t.Fatal(err)
	}
	d.power = 3 // the first copy is written, the second is not
	if _, err := v.Save(t.Context(), enrolled(tpm.Disabled)); !errors.Is(err, errPowerCut) {
		t.Fatal(err)
	}
	d.power = 1 << 30
	restarted := newVault(d, nil, tpm.Missing, tpm.Disabled)
	if _, _, err := restarted.Resume(kept); err != nil {
		t.Fatal(err)
	}
	for _, v := range []*Vault{v, restarted} {
		if info := mustSave(t, v, enrolled(tpm.Disabled)); info.Generation != 3 {
			t.Errorf("generation %d, want 3", info.Generation)
		}
	}
}

func TestResumeWithoutTheTPM(t *testing.T) {
	d := memory()
	v := newVault(d, boot(tpmtest.Start(t)), nil, tpm.Required)
	wantAbsent(t, v)
	mustSave(t, v, enrolled(tpm.Required))
	kept, err := v.Keep()
	if err != nil {
		t.Fatal(err)
	}
	v = newVault(d, nil, &tpm.Error{Outcome: tpm.Unresponsive}, tpm.Required)
	if _, _, err := v.Resume(kept); err != nil {
		t.Fatal(err)
	}
	if err := v.EndPhase(t.Context()); tpm.OutcomeOf(err) != tpm.Unresponsive {
		t.Errorf("end of phase: got %v", err)
	}
	if _, err := v.Save(t.Context(), enrolled(tpm.Required)); tpm.OutcomeOf(err) != tpm.Unresponsive {
		t.Errorf("save: got %v", err)
	}
}

func TestUnknownContentIsNewer(t *testing.T) {
	_, err := decodeConfig([]byte(`{"phase":"enrolling","key":"eA==","fromTheFuture":1}`))
	if tpm.OutcomeOf(err) != tpm.Newer {
		t.Errorf("got %v", err)
	}
}
