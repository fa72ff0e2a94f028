package tpm_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-tpm/tpm2"
	"github.com/google/go-tpm/tpm2/transport"

	"reveille/tpm"
	"reveille/tpm/tpmtest"
)

var secret = []byte("thirty-two bytes of a data key..")

// booted is a TPM after a firmware that measures boot loader and policy.
func booted(t *testing.T) *tpmtest.SWTPM {
	t.Helper()
	s := tpmtest.Start(t)
	measure(s)
	return s
}

func measure(s *tpmtest.SWTPM) {
	s.Extend(4, 0x44)
	s.Extend(7, 0x77)
}

func mustSeal(t *testing.T, dev *tpm.TPM) tpm.Slot {
	t.Helper()
	slot, err := dev.Seal(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	return slot
}

func wantOutcome(t *testing.T, err error, want tpm.Outcome) {
	t.Helper()
	if !errors.Is(err, want) || tpm.OutcomeOf(err) != want {
		t.Fatalf("got %v (%v), want %v", err, tpm.OutcomeOf(err), want)
	}
	if want.Remedy() == "" {
		t.Errorf("%v has no remedy", want)
	}
}

func TestUnsealUntilPhaseEndsAndAfterReboot(t *testing.T) {
	s := booted(t)
	dev := s.Open()
	slot := mustSeal(t, dev)
	for range 5 { // more often than the TPM has slots: everything is flushed
		got, err := dev.Unseal(t.Context(), slot)
		if err != nil || !bytes.Equal(got, secret) {
			t.Fatalf("got %q, %v", got, err)
		}
	}
	if err := dev.ExtendPhase(t.Context(), tpm.PhaseOpened); err != nil {
		t.Fatal(err)
	}
	_, err := dev.Unseal(t.Context(), slot)
	wantOutcome(t, err, tpm.PhaseOver)

	// Sealed again in the same boot, for the values of its start.
	slot = mustSeal(t, dev)
	dev.Close()

	// Another process of the same boot knows nothing of the phase.
	dev = s.Open()
	_, err = dev.Unseal(t.Context(), slot)
	wantOutcome(t, err, tpm.PhaseOver)
	dev.Close()

	s.Restart()
	measure(s)
	dev = s.Open()
	if got, err := dev.Unseal(t.Context(), slot); err != nil || !bytes.Equal(got, secret) {
		t.Fatalf("after reboot: got %q, %v", got, err)
	}
}

func TestEveryPathFlushes(t *testing.T) {
	s := booted(t)
	dev := s.Open()
	slot := mustSeal(t, dev)
	if err := dev.ExtendPhase(t.Context(), "other"); err != nil {
		t.Fatal(err)
	}
	for range 5 {
		if _, err := dev.Unseal(t.Context(), slot); err == nil {
			t.Fatal("unsealed in a later phase")
		}
	}
	dev.Close()
	s.Raw(func(raw transport.TPM) error {
		for _, first := range []uint32{0x80000000, 0x02000000, 0x03000000} {
			rsp, err := tpm2.GetCapability{Capability: tpm2.TPMCapHandles, Property: first, PropertyCount: 16}.Execute(raw)
			if err != nil {
				return err
			}
			handles, err := rsp.CapabilityData.Data.Handles()
			if err != nil {
				return err
			}
			if len(handles.Handle) > 0 {
				t.Errorf("handles left: %#x", handles.Handle)
			}
		}
		return nil
	})
}

func TestStartClearsWhatAKilledAgentLeft(t *testing.T) {
	s := booted(t)
	s.Raw(func(raw transport.TPM) error {
		for range 3 {
			if _, err := (tpm2.CreatePrimary{PrimaryHandle: tpm2.TPMRHOwner, InPublic: tpm2.New2B(tpm2.ECCSRKTemplate)}).Execute(raw); err != nil {
				return err
			}
		}
		return nil
	})
	dev := s.Open()
	if _, err := dev.Unseal(t.Context(), mustSeal(t, dev)); err != nil {
		t.Fatal(err)
	}
}

func TestPersistentSRKOnlyWhenPinned(t *testing.T) {
	for _, test := range []struct {
		name     string
		template tpm2.TPMTPublic
		primary  bool // a transient primary is needed
	}{
		{"ours", tpm2.ECCSRKTemplate, false},
		{"foreign", tpm2.RSASRKTemplate, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := booted(t)
			s.Raw(func(raw transport.TPM) error { return persist(raw, test.template) })
			first := s.Open()
			slot := mustSeal(t, first)
			first.Close()
			created := false
			dev := openThrough(t, &tpmtest.Filter{Next: s.Dial(), Answer: func(_ context.Context, cc tpm2.TPMCC, _ []byte) ([]byte, error) {
				created = created || cc == tpm2.TPMCCCreatePrimary
				return nil, nil
			}})
			if _, err := dev.Unseal(t.Context(), slot); err != nil {
				t.Fatal(err)
			}
			if created != test.primary {
				t.Errorf("created a primary: %t, want %t", created, test.primary)
			}
		})
	}
}

func persist(raw transport.TPM, template tpm2.TPMTPublic) error {
	p, err := tpm2.CreatePrimary{PrimaryHandle: tpm2.TPMRHOwner, InPublic: tpm2.New2B(template)}.Execute(raw)
	if err != nil {
		return err
	}
	_, err = tpm2.EvictControl{
		Auth:             tpm2.TPMRHOwner,
		ObjectHandle:     &tpm2.NamedHandle{Handle: p.ObjectHandle, Name: p.Name},
		PersistentHandle: 0x81000001,
	}.Execute(raw)
	return err
}

func openThrough(t *testing.T, tr tpm.Transport) *tpm.TPM {
	t.Helper()
	dev, err := tpm.New(t.Context(), tr, tpm.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { dev.Close() })
	return dev
}

func TestRetryableCodes(t *testing.T) {
	s := booted(t)
	for _, rc := range []tpm2.TPMRC{tpm2.TPMRCRetry, tpm2.TPMRCYielded, tpm2.TPMRCTesting, tpm2.TPMRCNVRate, tpm2.TPMRCInitialize} {
		t.Run(rc.Error(), func(t *testing.T) {
			once := map[tpm2.TPMCC]bool{}
			dev := openThrough(t, &tpmtest.Filter{Next: s.Dial(), Answer: func(_ context.Context, cc tpm2.TPMCC, _ []byte) ([]byte, error) {
				if once[cc] || cc == tpm2.TPMCCStartup {
					return nil, nil
				}
				once[cc] = true
				return tpmtest.Response(rc), nil
			}})
			defer dev.Close()
			if _, err := dev.Unseal(t.Context(), mustSeal(t, dev)); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestPCRChangedRestartsThePolicy(t *testing.T) {
	s := booted(t)
	left := 2
	dev := openThrough(t, &tpmtest.Filter{Next: s.Dial(), Answer: func(_ context.Context, cc tpm2.TPMCC, _ []byte) ([]byte, error) {
		if cc == tpm2.TPMCCUnseal && left > 0 {
			left--
			return tpmtest.Response(tpm2.TPMRCPCRChanged), nil
		}
		return nil, nil
	}})
	if _, err := dev.Unseal(t.Context(), mustSeal(t, dev)); err != nil {
		t.Fatal(err)
	}
}

func TestKeyNeverCrossesTheBusInTheClear(t *testing.T) {
	s := booted(t)
	var bus bytes.Buffer
	dev := openThrough(t, &tpmtest.Filter{Next: s.Dial(), Seen: func(b []byte) { bus.Write(b) }})
	got, err := dev.Unseal(t.Context(), mustSeal(t, dev))
	if err != nil || !bytes.Equal(got, secret) {
		t.Fatalf("got %q, %v", got, err)
	}
	if bytes.Contains(bus.Bytes(), secret) {
		t.Error("the secret was seen on the bus")
	}
}

func TestStoppedTPMEndsAtTheDeadline(t *testing.T) {
	s := booted(t)
	dev := s.Open()
	slot := mustSeal(t, dev)
	dev.SetTimeout(50 * time.Millisecond)
	s.Signal(syscall.SIGSTOP)
	start := time.Now()
	_, err := dev.Unseal(t.Context(), slot)
	wantOutcome(t, err, tpm.Unresponsive)
	if d := time.Since(start); d > 5*time.Second {
		t.Errorf("took %v", d)
	}
	if !strings.Contains(err.Error(), "no answer within 50ms") {
		t.Errorf("error does not name the deadline: %v", err)
	}
	// Its stream is lost: a late answer must not be taken for the next one's.
	s.Signal(syscall.SIGCONT)
	_, err = dev.Unseal(t.Context(), slot)
	wantOutcome(t, err, tpm.Unresponsive)
}

func TestRetryAfterAStopIsARealOne(t *testing.T) {
	s := booted(t)
	dev := s.Open()
	dev.SetRedial(s.Dial)
	slot := mustSeal(t, dev)
	dev.SetTimeout(50 * time.Millisecond)
	s.Signal(syscall.SIGSTOP)
	_, err := dev.Unseal(t.Context(), slot)
	wantOutcome(t, err, tpm.Unresponsive)
	s.Signal(syscall.SIGCONT)
	dev.SetTimeout(time.Minute)
	if got, err := dev.Unseal(t.Context(), slot); err != nil || !bytes.Equal(got, secret) {
		t.Fatalf("got %q, %v", got, err)
	}
}

func TestCancelEndsACommand(t *testing.T) {
	s := booted(t)
	dev := s.Open()
	slot := mustSeal(t, dev)
	s.Signal(syscall.SIGSTOP)
	defer s.Signal(syscall.SIGCONT)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err := dev.Unseal(ctx, slot)
	wantOutcome(t, err, tpm.Unresponsive)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("cause is lost: %v", err)
	}
}

func TestSkippedExtendIsAnError(t *testing.T) {
	s := booted(t)
	dev := openThrough(t, &tpmtest.Filter{Next: s.Dial(), Answer: func(_ context.Context, cc tpm2.TPMCC, command []byte) ([]byte, error) {
		if cc != tpm2.TPMCCPCRExtend {
			return nil, nil
		}
		// A success with an empty parameter area and password session.
		b := []byte{0x80, 0x02, 0, 0, 0, 19, 0, 0, 0, 0}
		b = binary.BigEndian.AppendUint32(b, 0)
		return append(b, 0, 0, 1, 0, 0), nil
	}})
	err := dev.ExtendPhase(t.Context(), tpm.PhaseOpened)
	wantOutcome(t, err, tpm.Unresponsive)
	if dev.PhaseOver() {
		t.Error("phase taken for over")
	}
}

// TestLostAnswerOfAnExtension: extended again, the register would no longer
// follow from the start of the boot.
func TestLostAnswerOfAnExtension(t *testing.T) {
	s := booted(t)
	dev := s.Open()
	boot := dev.Snapshot()
	if err := dev.ExtendPhase(t.Context(), tpm.PhaseOpened); err != nil {
		t.Fatal(err)
	}
	if err := dev.ExtendPhase(t.Context(), tpm.PhaseOpened); err != nil {
		t.Fatal(err)
	}
	dev.Close()
	dev = s.Open()
	dev.Resume(boot)
	if err := dev.ExtendPhase(t.Context(), tpm.PhaseOpened); err != nil {
		t.Fatal(err)
	}
	dev.Close()
	if got := s.Open().Snapshot(); got[2].Index != 11 || got[2].Digest != tpm.Extended(boot[2].Digest, tpm.PhaseOpened) {
		t.Errorf("PCR 11 was not extended exactly once: %v", got)
	}
}

func TestResume(t *testing.T) {
	s := booted(t)
	dev := s.Open()
	boot := dev.Snapshot()
	dev.Close()

	dev = s.Open() // restarted before the phase ended
	if dev.Resume(boot); dev.PhaseOver() {
		t.Fatal("over before the phase ended")
	}
	if err := dev.ExtendPhase(t.Context(), tpm.PhaseOpened); err != nil {
		t.Fatal(err)
	}
	dev.Close()

	s.Extend(7, 1) // a service measures something
	dev = s.Open() // restarted after the phase ended
	if dev.Resume(boot); !dev.PhaseOver() {
		t.Fatal("not over after the phase ended")
	}
	slot := mustSeal(t, dev)
	dev.Close()

	s.Restart()
	measure(s)
	if _, err := s.Open().Unseal(t.Context(), slot); err != nil {
		t.Fatalf("sealed after the phase, next boot: %v", err)
	}
}
